// Loads of values that are still fresh, in the background: no caller waits for them.
'use strict'

const assert = require('node:assert/strict')
const { test } = require('node:test')
const { Cache, OptionError, onLog } = require('larder-cache')
const { eventually, pause, redis } = require('./support.js')

/** A view of its own, and a loader of a number that grows with each load. */
function counting (name, options, cacheOptions = {}) {
  const view = new Cache(`ahead-${name}`, { ttl: '1h', ...cacheOptions }).view('v', options)
  const counted = { loads: 0 }
  return { view, counted, load: async () => ++counted.loads }
}

test('a value that is due is loaded in the background, long before its end', async (t) => {
  const { url } = await redis(t)
  for (const options of [{}, { redis: url }]) {
    const { view, counted, load } = counting('due', { refreshAhead: 0 }, options)
    assert.equal(await view.fetch('k', load), 1)
    assert.equal(await view.fetch('k', load), 1, 'the caller does not wait')
    await eventually('it is stored', () => view.hit('k') === 2)
    assert.equal(counted.loads, 2)
    assert.ok(await view.ttl('k') > 3_000_000)
    await view.cache.close()
  }
})

test('of many callers one loads ahead, and none waits', async () => {
  const { view, counted, load } = counting('many', { refreshAhead: 0 })
  await view.fetch('k', load)
  let goOn
  const slow = async () => {
    await new Promise((resolve) => { goOn = resolve })
    return load()
  }
  assert.deepEqual(await Promise.all(Array.from({ length: 50 }, () => view.fetch('k', slow))), Array(50).fill(1))
  await eventually('it begins', () => goOn !== undefined)
  goOn()
  await eventually('it is stored', () => view.hit('k') === 2)
  assert.equal(counted.loads, 2)
})

test('it is an option of a call, and a load that fails is a line of the log', async () => {
  const { view, counted, load } = counting('call', {})
  const options = { refreshAhead: 0 }
  const lines = []
  onLog((level, message) => lines.push(`${level} ${message}`))
  await view.fetch('k', load, options)
  const fail = async () => { throw new Error('no database') }
  assert.equal(await view.fetch('k', fail), 1, 'a call without the option begins none')
  assert.equal(await view.fetch('k', fail, options), 1)
  await eventually('a line', () => lines.some((line) => line === 'warn the load ahead of key "k" of view "v" failed: Error: no database'))
  assert.equal(view.cache.stats().loadFailures, 1)
  // The next one begins after `retryAfter`.
  assert.equal(await view.fetch('k', load, options), 1)
  await pause(20)
  assert.equal(counted.loads, 1)
  onLog(undefined)
})

test('a signal of the caller does not end it, and a wrapped function has it too', async () => {
  const { view, load } = counting('signal', { refreshAhead: 0 })
  const controller = new AbortController()
  await view.fetch('k', load)
  await view.fetch('k', async ({ signal, stale }) => {
    assert.deepEqual([signal, stale], [undefined, 1])
    await pause(10)
    return load()
  }, { signal: controller.signal })
  controller.abort()
  await eventually('it is stored', () => view.hit('k') === 2)

  let loads = 0
  const wrapped = view.cache.wrap('wrapped', async () => ++loads, { refreshAhead: 0 })
  assert.deepEqual([await wrapped(), await wrapped()], [1, 1])
  await eventually('it is loaded', () => loads === 2)
})

test('its values', async () => {
  const cache = new Cache('ahead-values', { ttl: '1h' })
  for (const right of [0.8, 1, '0.5', 'by_cost', 'by_cost:2', 'never']) cache.view('v', { refreshAhead: right })
  for (const wrong of [1.5, -1, 'often', true, NaN]) {
    assert.throws(() => cache.view('v', { refreshAhead: wrong }), (error) => error instanceof OptionError && /refresh_?ahead/i.test(error.message))
  }
  const view = cache.view('v')
  // It would do nothing there.
  await assert.rejects(view.set('k', 1, { refreshAhead: 0.8 }), OptionError)
  await assert.rejects(view.touch('k', { ttl: 1000, refreshAhead: 0.8 }), OptionError)
})
