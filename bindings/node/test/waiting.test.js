// Callers that wait: for one load, for another process, and not any more.
'use strict'

const assert = require('node:assert/strict')
const { test } = require('node:test')
const { Cache, LoadFailed, LoadTimeout, RecursiveLoad, onLog } = require('larder-cache')
const { eventually, pause, redis } = require('./support.js')

const own = (name, options = {}) => new Cache(name, { ttl: '5m', ...options })

test('of many callers one loads', async () => {
  const view = own('one').view('v')
  let loads = 0
  const load = async () => {
    loads++
    await pause(30)
    return { n: loads }
  }
  const found = await Promise.all(Array.from({ length: 100 }, () => view.fetch('k', load)))
  assert.equal(loads, 1)
  assert.ok(found.every(({ n }) => n === 1))
  assert.equal(new Set(found).size, 100, 'each has a value of its own')
})

test('of two nodes one loads', async (t) => {
  const { url } = await redis(t)
  // Two nodes in one process: their options differ.
  const caches = [1, 2].map((number) => own('nodes', { redis: url, memoryBytes: (64 << 20) + number }))
  const views = caches.map((cache) => cache.view('v'))
  let loads = 0
  const load = async () => {
    loads++
    await pause(100)
    return loads
  }
  assert.deepStrictEqual(await Promise.all(views.map((view) => view.fetch('k', load))), [1, 1])
  assert.equal(loads, 1)
  await views[0].delete('k')
  await eventually('the invalidation', () => views[1].hit('k') === undefined, 1000)
  await Promise.all(caches.map((cache) => cache.close()))
})

test('the leader gets its own error, and the others get one each with it as the cause', async () => {
  const view = own('errors').view('v')
  const thrown = new TypeError('no database')
  const load = async () => {
    await pause(20)
    throw thrown
  }
  const ends = await Promise.allSettled(Array.from({ length: 3 }, () => view.fetch('k', load)))
  // Any of them may lead.
  const followers = ends.map((end) => end.reason).filter((error) => error !== thrown)
  assert.equal(new Set(followers).size, 2)
  for (const error of followers) {
    assert.ok(error instanceof LoadFailed)
    assert.equal(error.cause, thrown)
    assert.match(error.message, /no database/)
  }
  const odd = await Promise.allSettled([1, 2].map(() => view.fetch('odd', async () => { await pause(20); throw 'text' })))
  const [follower] = odd.map((end) => end.reason).filter((error) => error !== 'text')
  assert.match(follower.message, /text/)
})

test('a caller that is aborted fails nobody', async () => {
  const view = own('aborted').view('v')
  const controller = new AbortController()
  let seen
  const leader = view.fetch('k', ({ signal }) => {
    seen = signal
    return new Promise(() => {})
  }, { signal: controller.signal })
  await eventually('the load', () => seen)
  const follower = view.fetch('k', () => 'second')
  await pause(10)
  controller.abort(new Error('left'))
  await assert.rejects(leader, /left/)
  assert.equal(seen.aborted, true)
  assert.equal(await follower, 'second')
  await assert.rejects(view.fetch('never', () => 1, { signal: controller.signal }), /left/)
})

test('a follower that is aborted leaves, and its load that comes later is given up', async () => {
  const view = own('follower').view('v')
  let end
  const leader = view.fetch('k', () => new Promise((resolve, reject) => { end = reject }))
  leader.catch(() => {})
  await eventually('the load', () => end)
  const controller = new AbortController()
  const leaving = view.fetch('k', () => assert.fail('it has left'), { signal: controller.signal })
  await pause(10)
  controller.abort()
  await assert.rejects(leaving, { name: 'AbortError' })
  const other = new AbortController()
  const many = view.fetchMany(['k'], () => assert.fail('it has left'), { signal: other.signal })
  other.abort()
  await assert.rejects(many, { name: 'AbortError' })
  end(new Error('over'))
  await assert.rejects(leader, /over/)
  assert.equal(await view.fetch('k', () => 'next'), 'next')
})

test('of callers whose loaders fetch the keys of each other, one is told so', async () => {
  const cache = own('circle')
  const view = cache.view('v')
  const many = async (key) => (await view.fetchMany([key, 'more'], (keys) => keys.map((key) => [key, 1]))).size
  for (const inner of [(key) => view.fetch(key, () => 1), many]) {
    const began = {}
    const begun = ['a', 'b'].map((key) => new Promise((resolve) => { began[key] = resolve }))
    const caller = (key, other) => view.fetch(key, async () => {
      began[key]()
      await Promise.all(begun)
      return inner(other)
    })
    const ends = await Promise.allSettled([caller('a', 'b'), caller('b', 'a')])
    // The one that closes the circle is told so. The other one that its load has failed, unless it comes later and loads itself.
    const others = ends.filter(({ reason }) => !(reason instanceof RecursiveLoad))
    assert.equal(others.length, 1)
    assert.ok(others[0].status === 'fulfilled' || others[0].reason.cause instanceof RecursiveLoad)
    assert.equal(await view.fetch('a', () => view.fetch('b', () => 2)), 2)
    await view.deleteMany(['a', 'b', 'more'])
  }
})

test('a loader that fetches its own key is told so', async () => {
  const view = own('recursive').view('v')
  await assert.rejects(view.fetch('k', () => view.fetch('k', () => 1)), RecursiveLoad)
  await assert.rejects(view.fetch('a', () => view.fetch('b', () => view.fetch('a', () => 1))), RecursiveLoad)
  await assert.rejects(view.fetch('k', () => view.fetchMany(['k'], () => [])), RecursiveLoad)
  assert.equal(await view.fetch('a', () => view.fetch('b', () => 2)), 2)
  // What a loader has started and not waited for.
  let later
  await view.fetch('c', () => {
    later = pause(20).then(() => view.fetch('c', () => 3))
    return 1
  })
  assert.equal(await later, 1)
})

test('a load that lasts too long is an error, and its value is stored nowhere', async () => {
  const view = own('slow').view('v')
  let late
  const ends = await Promise.allSettled([1, 2].map(() => view.fetch('k', () => {
    late = pause(200).then(() => 'late')
    return late
  }, { hardTimeout: 50 })))
  assert.ok(ends.some(({ reason }) => reason instanceof LoadTimeout), `${ends.map(({ reason }) => reason)}`)
  await late
  assert.equal(view.hit('k'), undefined)
})

test('a caller gets the stale value after its soft timeout', async () => {
  const view = own('soft').view('v', { grace: '1m', softTimeout: 20 })
  await view.set('k', 'old')
  await view.expire('k')
  let isLoading = false
  const leader = view.fetch('k', () => {
    isLoading = true
    return pause(150).then(() => 'new')
  })
  await eventually('the load', () => isLoading)
  assert.equal(await view.fetch('k', () => assert.fail('somebody loads')), 'old')
  await leader
  await eventually('the new value', () => view.hit('k') === 'new')
})

test('context of the caller is that of its loader', async () => {
  const { AsyncLocalStorage } = require('node:async_hooks')
  const context = new AsyncLocalStorage()
  const view = own('context').view('v')
  const found = await Promise.all(['a', 'b'].map((name) => context.run(name, () => view.fetch(name, async () => {
    await pause(5)
    return context.getStore()
  }))))
  assert.deepStrictEqual(found, ['a', 'b'])
  assert.equal(await context.run('after', async () => { await view.fetch('c', () => 1); return context.getStore() }), 'after')
})

test('without Redis a node answers, and says that it is lost', async (t) => {
  const server = await redis(t)
  const cache = own('away', { redis: server.url, disconnected: '1m', redisTimeout: 200 })
  const view = cache.view('v')
  const logged = []
  onLog((level, message) => logged.push(`${level}: ${message}`))
  t.after(() => onLog(undefined))
  await view.set('k', 1)
  await server.stop()
  assert.equal(view.hit('k'), 1)
  assert.equal(await view.fetch('other', () => 2), 2)
  assert.equal(await view.delete('k'), true, 'it was in memory')
  assert.equal(view.hit('k'), undefined)
  await assert.rejects(view.add('k', 1), { name: 'RedisError' })
  assert.ok(cache.coherence().pendingInvalidations > 0)
  await eventually('it says why', () => cache.coherence().problem?.includes('os error'))
  assert.ok(await cache.close(50) > 0, 'they are lost')
  assert.ok(logged.some((line) => line.startsWith('warn: request to redis failed error=')), logged.join('\n'))
})
