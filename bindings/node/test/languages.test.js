// A node in Rust and one in JavaScript over one Redis: they read each other's values, and serve nothing that the other invalidated.
'use strict'

const assert = require('node:assert/strict')
const { test } = require('node:test')
const { Cache } = require('larder-cache')
const { eventually, pause, peer, redis } = require('./support.js')

async function both (t, name) {
  const server = await redis(t)
  const cache = new Cache(name, { ttl: '5m', redis: server.url })
  t.after(() => cache.close())
  /** Waits until somebody has the lease of a key. */
  const leased = (key) => eventually(`the lease of ${key}`, async () => (await server.command('EXISTS', `${name}:product:${key}`)).startsWith(':1'))
  return { cache, leased, products: cache.view('product', { schema: ['product', 1] }), rust: peer(t, server, name) }
}

test('each language reads what the other has written', async (t) => {
  const { products, rust } = await both(t, 'reads')
  assert.equal(await rust('write apple apple 3'), 'ok')
  assert.deepStrictEqual(await products.get('apple'), { name: 'apple', price: 3, tags: ['fruit'], weight: null })
  assert.equal(await products.set('pear', { name: 'pear', price: 2n ** 63n - 1n, tags: [], weight: 0.5 }), true)
  assert.equal(await rust('read pear'), `pear ${2n ** 63n - 1n}`)
  await products.set('incomplete', { name: 'x' })
  assert.equal(await rust('read incomplete'), '-', 'what Rust has no type for is a miss')
})

test('what one language invalidates the other does not serve', async (t) => {
  const { cache, products, rust } = await both(t, 'invalidates')
  for (let turn = 0; turn < 20; turn++) {
    await rust(`write k name ${2 * turn}`)
    await eventually('what Rust wrote', async () => (await products.get('k'))?.price === 2 * turn, 2000)
    assert.equal(await products.set('k', { name: 'name', price: 2 * turn + 1, tags: [], weight: null }), true)
    await eventually('what JavaScript wrote', async () => await rust('read k') === `name ${2 * turn + 1}`, 2000)
  }
  assert.equal(await rust('fetch tagged t 1 0'), 'loaded t 1')
  assert.equal((await products.get('tagged')).price, 1)
  assert.equal(await cache.invalidateTags(['rust']), true)
  await eventually('the tag', async () => await rust('read tagged') === '-', 2000)
  await products.fetch('mine', () => ({ name: 'm', price: 1, tags: [], weight: null }), { tags: ['mine'] })
  assert.equal(await rust('tag mine'), 'ok')
  await eventually('the tag of Rust', () => products.hit('mine') === undefined, 2000)
})

test('one load for both languages', async (t) => {
  const { leased, products, rust } = await both(t, 'loads')
  const loading = rust('fetch slow rust 1 1000')
  await leased('slow')
  assert.equal((await products.fetch('slow', () => assert.fail('Rust loads it'))).name, 'rust')
  assert.equal(await loading, 'loaded rust 1')
  const own = products.fetch('other', () => pause(1000).then(() => ({ name: 'js', price: 2, tags: [], weight: null })))
  await leased('other')
  assert.equal(await rust('fetch other rust 1 0'), 'found js 2')
  await own
})
