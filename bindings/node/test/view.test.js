// What each call of a cache and of a view does.
'use strict'

const assert = require('node:assert/strict')
const { test } = require('node:test')
const { Cache, CacheClosed, KEEP, LarderError, OptionError } = require('larder-cache')
const { pause, redis } = require('./support.js')

/** Runs a test over memory alone, and over Redis too. */
function inBoth (name, run) {
  test(`${name}, in memory`, () => run(new Cache('view', { ttl: '5m' })))
  test(`${name}, with Redis`, async (t) => {
    const cache = new Cache('view', { ttl: '5m', redis: (await redis(t)).url })
    await run(cache)
    await cache.close()
  })
}

inBoth('a value is read, written and removed', async (cache) => {
  const view = cache.view('v')
  assert.equal(view.hit('k'), undefined)
  assert.equal(await view.get('k'), undefined)
  assert.equal(await view.set('k', 1), true)
  assert.equal(view.hit('k'), 1)
  assert.equal(await view.add('k', 2), false)
  assert.equal(await view.add('new', 2), true)
  assert.equal(await view.take('new'), 2)
  assert.equal(await view.take('new'), undefined)
  assert.equal(await view.delete('k'), true)
  assert.equal(await view.delete('k'), false)
  assert.equal(await view.get('k'), undefined)
})

inBoth('several keys are read, written and removed', async (cache) => {
  const view = cache.view('v')
  await view.setMany([['a', 1], [17, 2], [['eu', 3], 3]])
  await view.setMany({ b: 4 })
  const tuple = ['eu', 3]
  const found = await view.getMany(['a', 17, tuple, 'b', 'none', 'a'])
  assert.deepStrictEqual([...found], [['a', 1], [17, 2], [tuple, 3], ['b', 4]])
  assert.equal(await view.deleteMany(new Set(['a', 'none', 17])), 2)
  assert.deepStrictEqual([...(await view.getMany(['a', 17, 'b'])).keys()], ['b'])
})

inBoth('a loader loads several keys at once', async (cache) => {
  const view = cache.view('v')
  await view.set('b', 0)
  const asked = []
  const load = async (keys, load) => {
    asked.push(keys)
    load.tag('t')
    return keys.filter((key) => key !== 'none').map((key) => [key, key.length])
  }
  const found = await view.fetchMany(['aa', 'b', 'none', 'cccc'], load)
  assert.deepStrictEqual([...found], [['aa', 2], ['b', 0], ['cccc', 4]])
  assert.deepStrictEqual(asked, [['aa', 'none', 'cccc']])
  assert.deepStrictEqual([...(await view.fetchMany(['aa', 'b'], load)).values()], [2, 0])
  await cache.invalidateTags(['t'])
  assert.deepStrictEqual([...(await view.getMany(['aa', 'b'])).keys()], ['b'])
  await assert.rejects(view.fetchMany(['x'], () => { throw new Error('away') }), /away/)
})

inBoth('numbers are added to in one step', async (cache) => {
  const view = cache.view('n')
  assert.equal(await view.increment('k'), undefined)
  assert.equal(await view.increment('k', 2, { initial: 40 }), 40)
  assert.deepStrictEqual(await Promise.all([view.increment('k'), view.increment('k', 1n), view.increment('k', -2)]).then((sums) => sums.length), 3)
  assert.equal(await view.get('k'), 40)
  assert.equal(await view.increment('k', 2n ** 62n), 2n ** 62n + 40n)
  await assert.rejects(view.increment('k', 2n ** 62n), LarderError)
  await view.set('text', 'x')
  await assert.rejects(view.increment('text'), /no whole number/)
  await assert.rejects(view.increment('k', 1.5), OptionError)
})

inBoth('values have their times', async (cache) => {
  const view = cache.view('t', { ttl: 60_000, grace: '1m' })
  assert.equal(await view.ttl('k'), undefined)
  await view.set('k', 1)
  const ttl = await view.ttl('k')
  assert.ok(ttl > 50_000 && ttl <= 60_000, `${ttl}`)
  assert.equal(await view.touch('k', { ttl: '10m' }), true)
  assert.equal(await view.touch('none', { ttl: '10m' }), false)
  assert.ok(await view.ttl('k') > 500_000)
  assert.equal(await view.expire('k'), true)
  assert.equal(view.hit('k'), undefined)
  assert.equal(await view.fetch('k', () => { throw new Error('away') }), 1, 'the stale value')
  await view.set('short', 1, { ttl: 20, grace: 0 })
  await pause(60)
  assert.equal(await view.get('short'), undefined)
})

inBoth('a loader sets the options of its value', async (cache) => {
  const view = cache.view('l', { grace: '1m' })
  assert.equal(await view.fetch('k', (load) => {
    assert.equal(load.stale, undefined)
    load.ttl('10m')
    load.grace(0)
    load.tag('t')
    return 1
  }), 1)
  assert.ok(await view.ttl('k') > 500_000)
  await cache.invalidateTags(['t'])
  assert.equal(view.hit('k'), undefined)
  assert.equal(await view.fetch('passing', (load) => { load.noStore(); return 1 }), 1)
  assert.equal(await view.get('passing'), undefined)
  await view.set('k', { version: 1 })
  await view.expire('k')
  assert.deepStrictEqual(await view.fetch('k', (load) => {
    assert.deepStrictEqual(load.stale, { version: 1 })
    return KEEP
  }), { version: 1 })
  assert.deepStrictEqual(view.hit('k'), { version: 1 })
  await assert.rejects(view.fetch('nothing to keep', () => KEEP), LarderError)
})

inBoth('tags, patterns and the whole namespace are invalidated', async (cache) => {
  const view = cache.view('i', { tags: ['all'] })
  await view.set('a', 1, { tags: ['one'] })
  await view.set('b', 2)
  assert.equal(await cache.invalidateTags(['one']), true)
  assert.deepStrictEqual([view.hit('a'), view.hit('b')], [undefined, 2])
  await cache.invalidateTags(['all'], { soft: true })
  assert.equal(await view.fetch('b', () => 3), 3)
  assert.equal(await cache.deleteMatched('i:b*'), 1)
  await view.set('c', 1)
  assert.equal(await cache.clear(), true)
  assert.equal(await view.get('c'), undefined)
})

test('functions are cached by their arguments', async () => {
  const cache = new Cache('wrap', { ttl: '5m' })
  let runs = 0
  const price = cache.wrap('price', async function (product, currency = 'EUR') {
    runs++
    return { product, currency, by: this?.name ?? null }
  }, { tags: (product) => [`product-${product}`] })
  assert.equal((await price('apple')).currency, 'EUR')
  assert.equal((await price('apple', undefined)).currency, 'EUR')
  assert.equal((await price.call({ name: 'shop' }, 'apple', 'USD')).by, 'shop')
  assert.equal(runs, 2)
  const distinct = [[1], ['1'], [1n], [true], ['true'], [null], [[1, 2]], [1, 2], [Buffer.from([1])], []]
  for (const given of distinct) await price(...given)
  assert.equal(runs, 2 + distinct.length, 'each is a key of its own')
  assert.equal(await price.delete('apple'), true)
  await price('apple')
  await cache.invalidateTags(['product-apple'])
  await price('apple')
  assert.equal(runs, 4 + distinct.length)
  await assert.rejects(price({}), /give wrap a function key/)
})

test('what is wrong is an error that names it', async () => {
  const refused = (call, said) => assert.throws(call, (error) => {
    assert.ok(error instanceof OptionError, `${error}`)
    assert.ok(error.message.includes(said), error.message)
    assert.equal(error.name, 'OptionError')
    return true
  })
  refused(() => new Cache('c', { tll: 1 }), 'did you mean ttl?')
  refused(() => new Cache('c', { ttl: 'soon' }), 'soon')
  refused(() => new Cache('c', { ttl: {} }), 'ttl is of type object')
  refused(() => new Cache(7), 'the namespace is 7; it must be a text')
  const cache = new Cache('c', { ttl: '5m' })
  refused(() => cache.view('a:b'), 'without \':\' and \'/\'')
  refused(() => cache.view('v', { schema: ['é', 1] }), 'the name of a schema is "é"')
  refused(() => cache.view('v', { schema: 'x' }), 'as in ["product", 3]')
  refused(() => cache.view('v', { shared: 1 }), 'shared is 1')
  refused(() => cache.view('v', { ttl: -1 }), 'ttl is -1; it must be a number of milliseconds from 0')
  const view = cache.view('v')
  refused(() => cache.view('v', { schema: ['v', 2] }), 'the view "v" of this cache has schema v/1 and codec 3')
  for (const [options, said] of [
    [{ tags: 'one' }, 'tags is "one"; it must be an array of texts'],
    [{ tags: [1] }, 'tags is an object'],
    [{ ttl: 'x' }, 'ttl is "x"'],
    [{ negativTtl: 1 }, 'did you mean negativeTtl?'],
    [{ jitter: 2 }, 'jitter is 2; it must be a number from 0 to 1'],
    [7, 'the options are 7; they must be an object']
  ]) {
    await assert.rejects(view.set('k', 1, options), (error) => error instanceof OptionError && error.message.includes(said))
  }
  await assert.rejects(cache.invalidateTags('one'), OptionError)
})

test('a cache that is off loads each time', async () => {
  const cache = new Cache('off', { ttl: '5m' })
  const view = cache.view('v')
  await view.set('k', 1)
  cache.setEnabled(false)
  assert.equal(await view.fetch('k', () => 2), 2)
  cache.setEnabled(true)
})

test('figures are those of the core', async (t) => {
  const cache = new Cache('figures', { ttl: '5m', redis: (await redis(t)).url })
  const view = cache.view('v')
  await view.fetch('k', () => 1)
  view.hit('k')
  const { memory, redis: tier, loads } = cache.stats()
  assert.deepStrictEqual([memory.hits, memory.entries, tier.misses, loads], [1, 1, 1, 1])
  const { mode, memoryTrusted, pendingInvalidations, problem } = cache.coherence()
  assert.deepStrictEqual([mode, memoryTrusted, pendingInvalidations, problem], ['full', true, 0, null])
  await cache.close()
})

test('a closed cache says so', async () => {
  const cache = new Cache('closed', { ttl: '5m' })
  const view = cache.view('v')
  await view.set('k', 1)
  assert.equal(await cache.close(), 0)
  assert.equal(await cache.close(), 0)
  await isClosed(cache, view)
})

test('a cache that is closed before its first call does not start', async () => {
  const cache = new Cache('closed early', { ttl: '5m' })
  const view = cache.view('v')
  assert.equal(await cache.close(), 0)
  await isClosed(cache, view)
})

/** Each call says so. */
async function isClosed (cache, view) {
  const promises = [
    () => view.get('k'),
    () => view.getMany(['k']),
    () => view.set('k', 1),
    () => view.fetch('k', () => 1),
    () => view.fetchMany(['k'], () => []),
    () => view.increment('k'),
    () => view.delete('k'),
    () => cache.invalidateTags(['t']),
    () => cache.clear(),
    () => cache.drain()
  ]
  for (const call of promises) await assert.rejects(call(), CacheClosed, String(call))
  const direct = [() => view.hit('k'), () => cache.view('other'), () => cache.stats(), () => cache.coherence(), () => cache.setEnabled(false)]
  for (const call of direct) assert.throws(call, CacheClosed, String(call))
  assert.equal(await cache.close(), 0)
}

test('caches with the same options are one', async () => {
  const [one, two] = [{ ttl: '5m', grace: 0 }, { grace: 0, ttl: '5m' }].map((options) => new Cache('same', options))
  await one.view('v').set('k', 1)
  assert.equal(two.view('v').hit('k'), 1)
  await one.close()
  assert.equal(two.view('v').hit('k'), 1, 'it is open as long as somebody has it')
  await two.close()
  assert.equal(new Cache('same', { ttl: '5m', grace: 0 }).view('v').hit('k'), undefined, 'another one')
})
