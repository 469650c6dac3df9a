// The driver of BentoCache: its own suite, and what this cache promises.
'use strict'

const assert = require('node:assert/strict')
const { randomUUID } = require('node:crypto')
const { after, before, test } = require('node:test')
const { setTimeout: pause } = require('node:timers/promises')
const { Cache, EncodeError, OptionError } = require('larder-cache')
const { LarderDriver, larderDriver, serializer } = require('larder-cache/bentocache')
const { startNodes } = require('./adapter_nodes.js')
const { startRedis } = require('./redis.js')
const { runJapa } = require('./suite.js')

const MAX_LAG = 1000
/** A time to live that ends soon, but not before the next call on a busy machine. */
const SOON = 250
const A_YEAR = 365 * 24 * 3600 * 1000

let bentocache
let redis
let cache

before(async () => {
  bentocache = await import('bentocache')
  redis = await startRedis()
  cache = new Cache(`bento-${randomUUID()}`, { ttl: '5m', redis: redis.url })
})
after(async () => {
  await cache.close()
  await redis.close()
})

/** A BentoCache with one store over the driver. */
function bentoOf (driverOptions, options) {
  const store = bentocache.bentostore().useL2Layer(larderDriver(driverOptions))
  return new bentocache.BentoCache({ default: 'shop', stores: { shop: store }, ...options })
}

test('the suite passes', async () => {
  const { passed, failed } = await runJapa('bentocache.mjs', { REDIS: redis.url })
  assert.deepEqual(failed, [])
  assert.equal(passed.length, 21)
  assert.match(await redis.command('KEYS', 'suite-*:bentocache:*'), /suite-/, 'the values were in Redis')
})

test('a deletion, a clear and a tag in one process hold in another one', async (t) => {
  const [one, other] = startNodes(t, 'bentocache', redis)
  for (const invalidate of [['delete', 'apple'], ['clear'], ['deleteByTag', 'fruit']]) {
    await one.call('set', 'apple', { price: 3 }, ['fruit'])
    assert.deepEqual(await other.call('get', 'apple'), { price: 3 })
    const hits = await other.call('memoryHits')
    assert.deepEqual(await other.call('get', 'apple'), { price: 3 })
    assert.ok(await other.call('memoryHits') > hits, 'the other process has the value in its memory')
    await one.call(...invalidate)
    await pause(MAX_LAG)
    assert.equal(await other.call('get', 'apple'), undefined)
  }
})

test('getOrSet calls the factory once in a process', async (t) => {
  const [node] = startNodes(t, 'bentocache', redis)
  const values = await Promise.all([1, 2, 3].map((value) => node.call('getOrSet', 'apple', value, 100)))
  assert.equal(new Set(values).size, 1)
  assert.equal(await node.call('loads'), 1)
})

test('without Redis reads miss and writes hold in this process', async (t) => {
  const own = await startRedis()
  t.after(() => own.close())
  const lost = new Cache('shop', { ttl: '5m', redis: own.url })
  const bento = bentoOf({ cache: lost })
  const driver = new LarderDriver({ cache: lost, prefix: 'bentocache' })
  await bento.set({ key: 'apple', value: 3 })
  await own.stop()
  assert.equal(await bento.get({ key: 'pear' }), undefined)
  assert.equal(await bento.getOrSet({ key: 'pear', factory: () => 4 }), 4)
  assert.equal(await bento.get({ key: 'pear' }), 4)
  assert.equal(await driver.set('plum', 'text'), false, 'the other processes do not know')
  assert.equal(await driver.pull('plum'), undefined)
  assert.equal(await driver.get('plum'), undefined)
  await bento.delete({ key: 'apple' })
  assert.equal(await bento.get({ key: 'apple' }), undefined)
  await bento.deleteMany({ keys: ['pear'] })
  await bento.clear()
  await own.start()
  await bento.disconnect()
  assert.equal(await bento.get({ key: 'apple' }), undefined)
  assert.equal(await driver.set('plum', 'text'), true)
  await lost.close()
})

test('what another program has stored under a key is a miss', async () => {
  const program = new Cache(cache.namespace, { ttl: '5m', redis: redis.url, memoryBytes: '2MiB' })
  await program.view('planted', { schema: ['planted', 1] }).set('bentocache:apple', { value: 'of another schema' })
  await redis.command('SET', `${cache.namespace}:planted:bentocache:pear`, 'no value of larder')
  const bento = bentoOf({ cache, view: 'planted' })
  assert.equal(await bento.get({ key: 'apple' }), undefined)
  assert.equal(await bento.get({ key: 'pear' }), undefined)
  await program.close()
})

test('values are text of JSON, or MessagePack with the serializer', async () => {
  const value = { price: 3, since: new Date(0), bytes: Buffer.from('bar'), big: 2n ** 60n }
  const bento = bentoOf({ cache, view: 'packed' }, { serializer })
  await bento.set({ key: 'apple', value })
  assert.deepEqual(await bento.get({ key: 'apple' }), value)
  assert.deepEqual((await cache.view('packed', { schema: ['bentocache', 1] }).get('bentocache:apple')).value, value)
  const json = bentoOf({ cache, view: 'json' })
  await json.set({ key: 'apple', value: { price: 3 } })
  const text = await cache.view('json', { schema: ['bentocache', 1] }).get('bentocache:apple')
  assert.deepEqual(JSON.parse(text).value, { price: 3 })
})

test('a value that cannot be written raises, and is stored nowhere', async () => {
  const bento = bentoOf({ cache, view: 'refused' }, { serializer })
  await assert.rejects(bento.set({ key: 'apple', value: new Map() }), (error) => error.cause instanceof EncodeError)
  await assert.rejects(new LarderDriver({ cache }).set('apple', () => 3), EncodeError)
  assert.equal(await bento.get({ key: 'apple' }), undefined)
})

test('times to live are those of BentoCache, in Redis too', async () => {
  const bento = bentoOf({ cache, view: 'times' }, { ttl: '1m' })
  const view = cache.view('times', { schema: ['bentocache', 1] })
  await bento.set({ key: 'default', value: 1 })
  assert.ok(await view.ttl('bentocache:default') <= 60_000)
  await bento.setForever({ key: 'never', value: 1 })
  assert.ok(await view.ttl('bentocache:never') > A_YEAR)
  await bento.set({ key: 'short', value: 1, ttl: SOON, grace: false })
  assert.equal(await bento.get({ key: 'short' }), 1)
  await pause(SOON + 50)
  assert.equal(await view.get('bentocache:short'), undefined)
})

test('the grace period is that of BentoCache', async () => {
  const bento = bentoOf({ cache, view: 'grace' })
  const failing = () => { throw new Error('no database') }
  await bento.getOrSet({ key: 'apple', factory: () => 3, ttl: 20, grace: '1h' })
  await pause(40)
  assert.equal(await bento.getOrSet({ key: 'apple', factory: failing, ttl: 20, grace: '1h' }), 3)
  await assert.rejects(bento.getOrSet({ key: 'pear', factory: failing, grace: '1h' }))
})

test('a namespace clears what is under its prefix, however deep and long', async () => {
  const root = new LarderDriver({ cache, view: 'deep', prefix: 'shop:' })
  const deep = Array.from({ length: 100 }, (_, depth) => `n${depth}`)
  const [nested, long] = [deep.reduce((driver, name) => driver.namespace(name), root), root.namespace('ü'.repeat(300))]
  const write = async () => {
    await Promise.all([root.set('key', 'root'), nested.set('key', 'nested'), long.set('key', 'long'), root.set('n0s', 'other')])
  }
  const values = () => Promise.all([root.get('key'), nested.get('key'), long.get('key'), root.get('n0s')])
  await write()
  assert.deepEqual(await values(), ['root', 'nested', 'long', 'other'])
  await long.clear()
  assert.deepEqual(await values(), ['root', 'nested', undefined, 'other'])
  await nested.clear()
  assert.deepEqual(await values(), ['root', undefined, undefined, 'other'])
  await write()
  await root.namespace('n0').clear()
  assert.deepEqual(await values(), ['root', undefined, 'long', 'other'])
  await root.clear()
  assert.deepEqual(await values(), [undefined, undefined, undefined, undefined])
  await root.set('n0:n1:key', 'from the root')
  await root.namespace('n0').clear()
  assert.equal(await root.get('n0:n1:key'), undefined)
})

test('pull gives a value to one caller', async () => {
  const driver = new LarderDriver({ cache, view: 'pulled' })
  await driver.set('apple', 'text')
  const pulled = await Promise.all([driver.pull('apple'), driver.pull('apple'), driver.pull('apple')])
  assert.equal(pulled.filter((value) => value === 'text').length, 1)
})

test('mistakes in the options are named', () => {
  assert.throws(() => new LarderDriver({ cache: {} }), /cache is of type object; it must be a Cache/)
  assert.throws(() => new LarderDriver({ cache, prefx: 'shop' }), /there is no option "prefx"; there are cache, view, prefix/)
  assert.throws(() => new LarderDriver({ cache, view: 3 }), OptionError)
})
