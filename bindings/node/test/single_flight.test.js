// cache-manager over larder in several processes, without Redis, and with mistakes.
'use strict'

const assert = require('node:assert/strict')
const { randomUUID } = require('node:crypto')
const { after, before, test } = require('node:test')
const { setTimeout: pause } = require('node:timers/promises')
const { createCache } = require('cache-manager')
const { Keyv } = require('keyv')
const { Cache, EncodeError, OptionError, RecursiveLoad } = require('larder-cache')
const { singleFlight } = require('larder-cache/cache-manager')
const { keyvOptions } = require('larder-cache/keyv')
const { startNodes } = require('./adapter_nodes.js')
const { startRedis } = require('./redis.js')

const MAX_LAG = 1000

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

const create = () => singleFlight(createCache({ stores: [new Keyv(keyvOptions(larder, { namespace: randomUUID() }))] }))

test('a deletion and a clear in one process hold in another one', async (t) => {
  const [one, other] = startNodes(t, 'cache-manager', redis)
  for (const invalidate of [['delete', 'apple'], ['clear']]) {
    await one.call('set', 'apple', { price: 3 })
    assert.deepEqual(await other.call('get', 'apple'), { price: 3 })
    assert.deepEqual(await other.call('wrap', 'apple', 'not called', 0), { price: 3 })
    await one.call(...invalidate)
    await pause(MAX_LAG)
    assert.equal(await other.call('get', 'apple'), undefined)
  }
})

test('of two processes one calls the wrapped function, and each one refreshes for itself', async (t) => {
  const [one, other] = startNodes(t, 'cache-manager', redis)
  const loads = async () => (await one.call('loads')) + (await other.call('loads'))
  assert.equal(await loads(), 0, 'both have started')
  const wrap = (node, number, ...options) => node.call('wrap', 'apple', number, 500, 60_000, ...options)
  const values = await Promise.all([one, other].map((node, number) => wrap(node, number)))
  assert.equal(values[0], values[1])
  assert.equal(await loads(), 1)
  const refreshed = [one, one, other, other].map((node, number) => wrap(node, number, 70_000))
  assert.deepEqual(new Set(await Promise.all(refreshed)), new Set([values[0]]))
  await pause(1000)
  assert.equal(await loads(), 3)
})

test('what is deleted while it is loaded is not kept', async (t) => {
  const [one, other] = startNodes(t, 'cache-manager', redis)
  const loaded = one.call('wrap', 'apple', 'old', 500)
  while (await one.call('loads') === 0) await pause(1)
  await other.call('delete', 'apple')
  await loaded
  assert.equal(await one.call('get', 'apple'), undefined)
  assert.equal(await other.call('get', 'apple'), undefined)
})

test('without Redis every process loads, and nothing raises', async (t) => {
  const own = await startRedis()
  t.after(() => own.close())
  const lost = new Cache('shop', { ttl: '5m', redis: own.url })
  const cache = singleFlight(createCache({ stores: [new Keyv(keyvOptions(lost))] }))
  await cache.set('apple', 3)
  await own.stop()
  assert.equal(await cache.get('pear'), undefined)
  assert.equal(await cache.wrap('pear', () => 4), 4)
  assert.equal(await cache.set('plum', 5), 5)
  assert.deepEqual(await cache.mget(['pear', 'plum', 'fig']), [4, 5, undefined])
  assert.equal(await cache.del('apple'), true)
  assert.equal(await cache.get('apple'), undefined)
  assert.equal(await cache.clear(), true)
  assert.equal(await cache.get('plum'), undefined)
  await lost.close(0)
})

test('what cannot be written raises', async () => {
  const cache = create()
  await assert.rejects(cache.set('apple', new Map()), EncodeError)
  await assert.rejects(cache.wrap('apple', () => new Map()), EncodeError)
  assert.equal(await cache.get('apple'), undefined)
})

test('a wrapped function that wraps its own key fails at once', async () => {
  const cache = create()
  await assert.rejects(cache.wrap('apple', () => cache.wrap('apple', () => 3)), RecursiveLoad)
  assert.equal(await cache.wrap('apple', () => cache.wrap('pear', () => 3)), 3)
})

test('singleFlight refuses caches that it cannot wrap', () => {
  const ours = () => new Keyv(keyvOptions(larder))
  const { store } = keyvOptions(larder)
  for (const stores of [undefined, [new Keyv()], [ours(), new Keyv()], [new Keyv({ store })]]) {
    assert.throws(() => singleFlight(createCache({ stores })), OptionError)
  }
})
