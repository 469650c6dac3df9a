// cache-manager over larder: the calls that it documents, with its own memory for comparison.
'use strict'

const assert = require('node:assert/strict')
const { randomUUID } = require('node:crypto')
const { after, before, describe, test } = require('node:test')
const { setTimeout: pause } = require('node:timers/promises')
const { createCache } = require('cache-manager')
const { Keyv } = require('keyv')
const { Cache } = require('larder-cache')
const { singleFlight } = require('larder-cache/cache-manager')
const { keyvOptions } = require('larder-cache/keyv')
const { startRedis } = require('./redis.js')

/** A time to live that ends soon, but not before the next call on a busy machine. */
const SOON = 250

let redis
let larder

before(async () => {
  redis = await startRedis()
  larder = new Cache(`manager-${randomUUID()}`, { ttl: '5m', redis: redis.url })
})
after(async () => {
  await larder.close()
  await redis.close()
})

const overLarder = (options) => createCache({ stores: [new Keyv(keyvOptions(larder, { namespace: randomUUID() }))], ...options })

/** The first one is what cache-manager itself does. */
const kinds = {
  'its own memory': createCache,
  larder: overLarder,
  'larder with singleFlight': (options) => singleFlight(overLarder(options), options)
}

/** A function that counts its calls. */
function counted (value, milliseconds = 0) {
  const load = async () => {
    load.calls++
    await pause(milliseconds)
    if (value instanceof Error) throw value
    return typeof value === 'function' ? value(load.calls) : value
  }
  load.calls = 0
  return load
}

for (const [kind, create] of Object.entries(kinds)) {
  describe(`cache-manager over ${kind}`, () => {
    test('set, get, del', async () => {
      const cache = create()
      assert.equal(await cache.set('apple', 3), 3)
      assert.equal(await cache.get('apple'), 3)
      assert.equal(await cache.get('pear'), undefined)
      assert.equal(await cache.del('apple'), true)
      assert.equal(await cache.del('apple'), true)
      assert.equal(await cache.get('apple'), undefined)
      for (const value of [null, false, 0, '', { a: [1] }]) {
        await cache.set('value', value)
        assert.deepEqual(await cache.get('value'), value)
      }
    })

    test('mset, mget, mdel', async () => {
      const cache = create()
      const list = [{ key: 'a', value: 1 }, { key: 'b', value: 2, ttl: SOON }, { key: 'c', value: 3, ttl: 5000 }]
      assert.equal((await cache.mset(list)).length, 3)
      assert.deepEqual(await cache.mget(['a', 'b', 'x', 'c']), [1, 2, undefined, 3])
      await pause(SOON + 50)
      assert.deepEqual(await cache.mget(['a', 'b', 'c']), [1, undefined, 3])
      assert.equal(await cache.mdel(['a', 'c']), true)
      assert.deepEqual(await cache.mget(['a', 'c']), [undefined, undefined])
    })

    test('clear', async () => {
      const cache = create()
      await cache.set('apple', 3)
      assert.equal(await cache.clear(), true)
      assert.equal(await cache.get('apple'), undefined)
    })

    test('times to live: of the cache, of the call, none', async () => {
      const cache = create({ ttl: SOON })
      await Promise.all([cache.set('default', 1), cache.set('longer', 1, 5000), cache.set('never', 1, 0)])
      const end = await cache.ttl('longer')
      assert.ok(end > Date.now() && end <= Date.now() + 5000)
      assert.equal(await cache.ttl('never'), undefined)
      await pause(SOON + 50)
      assert.deepEqual(await cache.mget(['default', 'longer', 'never']), [undefined, 1, 1])
    })

    test('wrap calls the function once, and for each key', async () => {
      const cache = create()
      const load = counted((calls) => ({ calls }), 20)
      const many = await Promise.all(Array.from({ length: 20 }, () => cache.wrap('apple', load)))
      assert.deepEqual(new Set(many.map(({ calls }) => calls)), new Set([1]))
      assert.deepEqual(await cache.wrap('apple', load), { calls: 1 })
      assert.deepEqual(await cache.get('apple'), { calls: 1 })
      assert.deepEqual(await cache.wrap('pear', load), { calls: 2 })
      await cache.del('apple')
      assert.deepEqual(await cache.wrap('apple', load), { calls: 3 })
    })

    test('wrap reads what set has written, and the other way round', async () => {
      const cache = create()
      const load = counted('loaded')
      await cache.set('apple', null)
      assert.equal(await cache.wrap('apple', load), null)
      await cache.set('apple', undefined)
      assert.equal(await cache.wrap('apple', load), 'loaded')
      assert.equal(await cache.wrap('apple', load), 'loaded')
      assert.equal(load.calls, 1)
    })

    test('wrap has times to live: a number, a function of the value, the default', async () => {
      const cache = create({ ttl: SOON })
      const load = counted((calls) => calls)
      await cache.wrap('number', load, 5000)
      await cache.wrap('function', load, { ttl: (value) => value * 2500 })
      await cache.wrap('default', load)
      assert.ok(Math.abs((await cache.ttl('function')) - Date.now() - 5000) < 1000)
      await pause(SOON + 50)
      assert.deepEqual(await cache.mget(['number', 'function', 'default']), [1, 2, undefined])
    })

    test('wrap returns the raw value', async () => {
      const cache = create()
      const load = counted(3)
      for (const from of ['the function', 'the cache']) {
        const { value, expires } = await cache.wrap('apple', load, { ttl: 5000, raw: true })
        assert.equal(value, 3, from)
        assert.ok(Math.abs(expires - Date.now() - 5000) < 1000)
      }
      assert.equal(load.calls, 1)
    })

    test('wrap throws what the function throws, for all who wait, and stores nothing', async () => {
      const cache = create()
      const failure = new Error('no database')
      const load = counted(failure, 20)
      const all = await Promise.allSettled([cache.wrap('apple', load), cache.wrap('apple', load), cache.wrap('apple', load)])
      assert.ok(all.every(({ reason }) => reason === failure))
      assert.equal(load.calls, 1)
      assert.equal(await cache.wrap('apple', counted(3)), 3)
    })

    test('wrap does not keep undefined', async () => {
      const cache = create()
      const load = counted(undefined, 20)
      assert.deepEqual(await Promise.all([cache.wrap('apple', load), cache.wrap('apple', load)]), [undefined, undefined])
      assert.equal(load.calls, 1)
      assert.equal(await cache.wrap('apple', load), undefined)
      assert.equal(load.calls, 2)
    })

    test('wrap refreshes in the background below the threshold', async () => {
      const cache = create({ ttl: 5000, refreshThreshold: 4500 })
      const load = counted((calls) => calls, 100)
      assert.equal(await cache.wrap('apple', load), 1)
      assert.equal(await cache.wrap('apple', load), 1)
      await pause(600)
      assert.equal(load.calls, 1, 'there was enough time left')
      const refreshed = new Promise((resolve) => cache.on('refresh', resolve))
      const stale = await Promise.all(Array.from({ length: 5 }, () => cache.wrap('apple', load)))
      assert.deepEqual(stale, [1, 1, 1, 1, 1])
      await pause(10)
      assert.equal(await cache.wrap('apple', load), 1, 'the refresh is under way')
      const event = await refreshed
      assert.deepEqual([event.key, event.value, event.error], ['apple', 2, undefined])
      assert.equal(load.calls, 2)
      assert.equal(await cache.get('apple'), 2)
    })

    test('a refresh that fails is an event, and the value stays', async () => {
      const cache = create({ ttl: 5000 })
      await cache.wrap('apple', counted(3))
      const refreshed = new Promise((resolve) => cache.on('refresh', resolve))
      assert.equal(await cache.wrap('apple', counted(new Error('no database')), undefined, 6000), 3)
      const event = await refreshed
      assert.deepEqual([event.key, event.value, event.error.message], ['apple', 3, 'no database'])
      assert.equal(await cache.get('apple'), 3)
    })

    test('events of what was done', async () => {
      const cache = create()
      const events = []
      for (const name of ['get', 'set', 'del', 'clear']) {
        cache.on(name, (event) => events.push([name, event?.value, event?.store]))
      }
      await cache.wrap('apple', counted(3))
      await cache.get('apple')
      await cache.del('apple')
      await cache.clear()
      assert.deepEqual(events, [
        ['set', 3, 'primary'],
        ['set', 3, undefined],
        ['get', 3, 'primary'],
        ['del', undefined, undefined],
        ['clear', undefined, undefined]
      ])
    })
  })
}
