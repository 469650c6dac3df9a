// The adapter of Keyv: its own suite, and what this cache promises.
'use strict'

const assert = require('node:assert/strict')
const { randomUUID } = require('node:crypto')
const { after, before, test } = require('node:test')
const { setTimeout: pause } = require('node:timers/promises')
const { Keyv } = require('keyv')
const { Keyv: Keyv6 } = require('keyv-6')
const { Cache, EncodeError, OptionError } = require('larder-cache')
const { KeyvLarder, keyvOptions } = require('larder-cache/keyv')
const { startNodes } = require('./adapter_nodes.js')
const { startRedis } = require('./redis.js')
const { runVitest } = require('./suite.js')

const MAX_LAG = 1000
/** A time to live that ends soon, but not before the next call on a busy machine. */
const SOON = 250
const A_YEAR = 365 * 24 * 3600 * 1000

let redis
let cache

before(async () => {
  redis = await startRedis()
  cache = new Cache(`keyv-${randomUUID()}`, { ttl: '5m', redis: redis.url })
})
after(async () => {
  await cache.close()
  await redis.close()
})

/** Keyv 6 returns a boolean for each key, and the suite is that of Keyv 5. */
const ONLY_KEYV_5 = '.deleteMany([keys]) with nonexistent keys resolves to false'

// The suite has two more parts. That of iterators does not apply: larder does not list its keys. That of compression tests
// adapters that compress, over a Map.
for (const { name, env, exceptions } of [
  { name: 'Keyv 5 with keyvOptions', env: { KEYV: 'keyv' }, exceptions: [] },
  { name: 'Keyv 5 with its own options', env: { KEYV: 'keyv', PLAIN: '1' }, exceptions: [] },
  { name: 'Keyv 6 with keyvOptions', env: { KEYV: 'keyv-6' }, exceptions: [ONLY_KEYV_5] },
  { name: 'Keyv 6 with its own options', env: { KEYV: 'keyv-6', PLAIN: '1' }, exceptions: [ONLY_KEYV_5] }
]) {
  test(`the suite passes for ${name}`, async () => {
    const { passed, failed } = await runVitest({ ...env, REDIS: redis.url })
    const failures = failed.filter(({ title }) => !exceptions.includes(title))
    assert.deepEqual(failures, [])
    assert.equal(passed.length, 38 - exceptions.length)
    assert.match(await redis.command('KEYS', 'suite-*:keyv:*'), /suite-/, 'the values were in Redis')
  })
}

test('a deletion and a clear in one process hold in another one', async (t) => {
  const [one, other] = startNodes(t, 'keyv', redis)
  for (const invalidate of [['delete', 'apple'], ['clear']]) {
    await one.call('set', 'apple', { price: 3 })
    assert.deepEqual(await other.call('get', 'apple'), { price: 3 })
    const hits = await other.call('memoryHits')
    assert.deepEqual(await other.call('get', 'apple'), { price: 3 })
    assert.equal(await other.call('memoryHits'), hits + 1, 'the other process has the value in its memory')
    await one.call(...invalidate)
    await pause(MAX_LAG)
    assert.equal(await other.call('get', 'apple'), undefined)
  }
})

test('without Redis reads miss and writes hold in this process', async (t) => {
  const own = await startRedis()
  t.after(() => own.close())
  const lost = new Cache('shop', { ttl: '5m', redis: own.url })
  const keyv = new Keyv(keyvOptions(lost))
  await keyv.set('apple', 3)
  await own.stop()
  assert.equal(await keyv.get('pear'), undefined)
  assert.deepEqual(await keyv.get(['pear', 'plum']), [undefined, undefined])
  assert.equal(await keyv.has('pear'), false)
  assert.equal(await keyv.set('pear', 4), false, 'the other processes do not know')
  assert.deepEqual(await keyv.setMany([{ key: 'plum', value: 5 }]), [false])
  await keyv.delete('apple')
  assert.equal(await keyv.get('apple'), undefined)
  await keyv.clear()
  await own.start()
  await keyv.disconnect()
  assert.equal(await keyv.get('apple'), undefined)
  assert.equal(await keyv.set('apple', 6), true)
  await lost.close()
})

test('what another program has stored under a key is a miss', async () => {
  // Its own cache: nothing of what this process has in memory.
  const program = new Cache(cache.namespace, { ttl: '5m', redis: redis.url, memoryBytes: '2MiB' })
  await program.view('planted', { schema: ['planted', 1] }).set(['users', 'apple'], { value: 'of another schema' })
  await redis.command('SET', `${cache.namespace}:planted:users:pear`, 'no value of larder')
  for (const Class of [Keyv, Keyv6]) {
    const keyv = new Class(keyvOptions(cache, { view: 'planted', namespace: 'users' }))
    assert.deepEqual(await keyv.get(['apple', 'pear']), [undefined, undefined])
    assert.equal(await keyv.has('apple'), false)
    assert.equal(await keyv.get('pear'), undefined)
  }
  await program.close()
})

test('a value that cannot be written raises, and is stored nowhere', async () => {
  for (const Class of [Keyv, Keyv6]) {
    const keyv = new Class(keyvOptions(cache, { namespace: 'refused' }))
    await assert.rejects(keyv.set('apple', new Map([['price', 3]])), EncodeError)
    await assert.rejects(keyv.setMany([{ key: 'apple', value: () => 3 }]), EncodeError)
    assert.equal(await keyv.get('apple'), undefined)
  }
  // Keyv 6 raises no error that somebody listens to.
  const keyv = new Keyv6(keyvOptions(cache, { namespace: 'refused' }))
  const heard = new Promise((resolve) => keyv.on('error', resolve))
  assert.equal(await keyv.set('apple', () => 3), false)
  assert.ok(await heard instanceof EncodeError)
})

test('values are readable as MessagePack', async () => {
  const value = { price: 3, tags: ['fruit'], bytes: Buffer.from('bar'), since: new Date(0) }
  for (const Class of [Keyv, Keyv6]) {
    const options = keyvOptions(cache, { view: 'readable', namespace: 'users' })
    await new Class(options).set('apple', value)
    const view = cache.view('readable', { schema: ['keyv', 1] })
    assert.deepEqual(await view.get(['users', 'apple']), { value })
    assert.deepEqual(await new Class(options).get('apple'), value)
  }
})

test('a hit is a copy', async () => {
  const keyv = new Keyv(keyvOptions(cache, { namespace: 'copies' }))
  await keyv.set('apple', { price: 3 })
  const found = await keyv.get('apple')
  found.price = 4
  assert.deepEqual(await keyv.get('apple'), { price: 3 })
})

test('times to live are those of Keyv, in Redis too', async () => {
  for (const Class of [Keyv, Keyv6]) {
    const options = keyvOptions(cache, { namespace: `times-${Class === Keyv ? 5 : 6}`, ttl: 60_000 })
    const { store } = options
    const keyv = new Class(options)
    const left = (key) => store.view.ttl(store.keyOf(key))
    await keyv.set('default', 1)
    assert.ok((await left('default')) <= 60_000)
    await keyv.set('never', 1, 0)
    assert.ok((await left('never')) > A_YEAR)
    await keyv.set('short', 1, SOON)
    assert.equal(await keyv.get('short'), 1)
    await keyv.setMany([{ key: 'a', value: 1, ttl: SOON }, { key: 'b', value: 2, ttl: 5000 }, { key: 'a', value: 3, ttl: 5000 }])
    assert.deepEqual(await keyv.get(['a', 'b']), [3, 2])
    await pause(SOON + 50)
    assert.equal(await store.get('short'), undefined, 'it has ended in larder, not only for Keyv')
  }
})

test('a value that has ended already removes the one before', async () => {
  const keyv = new Keyv(keyvOptions(cache, { namespace: 'ended' }))
  await keyv.setMany([{ key: 'apple', value: 1 }, { key: 'pear', value: 2 }])
  await keyv.set('apple', 3, -1)
  await keyv.setMany([{ key: 'pear', value: 4, ttl: -1 }])
  assert.deepEqual(await keyv.store.getMany(['apple', 'pear']), [undefined, undefined])
})

test('keys and namespaces have any characters, and do not collide', async () => {
  for (const Class of [Keyv, Keyv6]) {
    const [one, other, long] = ['a', 'a:b', 'ü'.repeat(300)].map((namespace) => new Class(keyvOptions(cache, { namespace })))
    for (const key of ['b:c', 'c', '*', 'with space\n', '\\', '🍏', 'k'.repeat(5000)]) {
      await Promise.all([one.set(key, `one ${key}`), other.set(key, `other ${key}`), long.set(key, `long ${key}`)])
    }
    assert.equal(await one.get('b:c'), 'one b:c')
    assert.equal(await other.get('c'), 'other c')
    assert.equal(await one.get('🍏'), 'one 🍏')
    await long.clear()
    assert.equal(await long.get('c'), undefined)
    assert.equal(await other.get('c'), 'other c')
    await other.clear()
    assert.equal(await other.get('c'), undefined)
    assert.equal(await one.get('b:c'), 'one b:c')
  }
})

test('two Keyvs cannot share a store, whose keys would be mixed', () => {
  for (const Class of [Keyv, Keyv6]) {
    const store = new KeyvLarder(cache)
    const first = new Class({ store, namespace: 'users' })
    assert.equal(first.namespace, 'users')
    assert.throws(() => new Class({ store, namespace: 'posts' }), OptionError)
  }
})

test('mistakes in the options are named', () => {
  assert.throws(() => keyvOptions({}), /cache is of type object; it must be a Cache/)
  assert.throws(() => keyvOptions(cache, { view: 3 }), /view is of type number/)
  assert.throws(() => new KeyvLarder(cache, { veiw: 'users' }), /there is no option "veiw"; there are view/)
})
