// Values: what is written comes back equal, and of the same type, from the loader, from memory and from Redis.
'use strict'

const assert = require('node:assert/strict')
const fs = require('node:fs')
const path = require('node:path')
const { test } = require('node:test')
const { Cache, EncodeError, KeyTypeError } = require('larder-cache')
const native = require('../node_modules/larder-cache/lib/native.js')
const { peer, redis } = require('./support.js')

const corpus = (name) => JSON.parse(fs.readFileSync(path.join(process.env.LARDER_ROOT, 'bindings/interop', name), 'utf8'))

/** Each of them comes back as it is. */
const VALUES = [
  null, true, false, 0, -0, 1, -1, 1.5, NaN, Infinity, -Infinity, 2 ** 53, 1e300, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER,
  2n ** 53n, -(2n ** 63n), 2n ** 64n - 1n,
  '', 'apple', 'äpfel', '\u{1f34e}', 'with\0zero', '\ufffd', 'x'.repeat(100_000),
  Buffer.from(''), Buffer.from([0, 255]),
  new Date(0), new Date(-1), new Date('2026-11-26T12:00:00.123Z'), new Date(8.64e15),
  [], [1, [2, [3]]], {}, { a: 1, b: { c: [null, 'x'] } }, { '': 0, 'a.b': 1, 1: 'one' }, JSON.parse('{"__proto__": {"polluted": true}}')
]

test('values come back equal from the loader, from memory and from Redis', async (t) => {
  const server = await redis(t)
  const [one, two] = ['shop', 'shop'].map((name, number) => new Cache(name, { redis: server.url, ttl: '5m', memoryBytes: (64 << 20) + number }))
  for (const shared of [false, true]) {
    const [here, there] = [one, two].map((cache) => cache.view(`v${shared}`, { shared }))
    for (const [number, value] of VALUES.entries()) {
      const loaded = await here.fetch(number, () => value)
      assert.deepStrictEqual(loaded, value)
      assert.deepStrictEqual(here.hit(number), value)
      assert.deepStrictEqual(await there.get(number), value, 'from Redis')
    }
  }
  assert.equal({}.polluted, undefined)
  await Promise.all([one.close(), two.close()])
})

test('values of a JSON view come back equal, and views of MessagePack read them', async (t) => {
  const server = await redis(t)
  const [one, two] = [0, 1].map((number) => new Cache('json', { redis: server.url, ttl: '5m', memoryBytes: (64 << 20) + number }))
  const [json, other] = [one.view('v', { codec: 'json' }), two.view('v')]
  const isJson = (value) => !Buffer.isBuffer(value) && !(value instanceof Date) && (typeof value !== 'number' || Number.isFinite(value))
  for (const [number, value] of VALUES.filter(isJson).entries()) {
    assert.deepStrictEqual(await json.fetch(number, () => value), value)
    assert.deepStrictEqual(json.hit(number), value)
    assert.deepStrictEqual(await other.get(number), value, 'from Redis')
  }
  for (const [value, said] of [
    [{ a: [Buffer.from('x')] }, 'at $.a[0]: JSON has no bytes'],
    [new Date(0), 'at $: JSON has no points in time'],
    [[NaN], 'at $[0]: JSON has no numbers that are not finite']
  ]) {
    await assert.rejects(json.set('refused', value), (error) => error instanceof EncodeError && error.message.includes(said))
  }
  assert.throws(() => one.view('w', { codec: 'yaml' }), /codec is "yaml"; it must be messagepack or json/)
  await Promise.all([one.close(), two.close()])
})

test('what is lost on the way is written down', async () => {
  const view = new Cache('lost', { ttl: '5m' }).view('v')
  for (const [written, read] of [
    [5n, 5],
    [2 ** 53 + 2, 2 ** 53 + 2],
    [{ a: undefined, b: 1 }, { b: 1 }],
    [Object.assign(Object.create(null), { a: 1 }), { a: 1 }],
    [new Uint8Array([1]), Buffer.from([1])]
  ]) assert.deepStrictEqual(await view.fetch('k', () => written, { refresh: true }), read)
})

test('what JavaScript would read as something else is refused with its place', async () => {
  const view = new Cache('refused', { ttl: '5m' }).view('v')
  class Money {}
  const cyclic = []
  cyclic.push(cyclic)
  for (const [value, said] of [
    [undefined, 'at $: undefined'],
    [{ a: [undefined] }, 'at $.a[0]: undefined'],
    [{ a: { b: new Map() } }, 'at $.a.b: an object of a class'],
    [new Money(), 'at $: an object of a class'],
    [[() => 1], 'at $[0]: a function or a symbol'],
    [{ a: 2n ** 64n }, 'at $.a: an integer outside of -2^63 to 2^64 - 1'],
    ['\ud800', 'at $: a text with half of a surrogate pair'],
    [{ '\udc00': 1 }, 'a name with half of a surrogate pair'],
    [new Date(NaN), 'at $: an invalid Date'],
    [new Float64Array(1), 'an object of a class'],
    [cyclic, 'more than 128 lists and maps are around it']
  ]) {
    await assert.rejects(view.set('k', value), (error) => {
      assert.ok(error instanceof EncodeError, `${error}`)
      assert.ok(error.message.includes(said), error.message)
      return true
    })
  }
  await assert.rejects(view.fetch('k', () => new Map()), EncodeError)
  assert.equal(await view.fetch('k', () => 1), 1, 'the failed load is not in the way')
  const throwing = { get a () { throw new RangeError('from the getter') } }
  await assert.rejects(view.set('k', throwing), /from the getter/)
})

test('each hit has a value of its own, and a shared one is frozen', async () => {
  const cache = new Cache('copies', { ttl: '5m' })
  const view = cache.view('own')
  ;(await view.fetch('k', () => ({ a: [1] }))).a.push(2)
  assert.deepStrictEqual(view.hit('k'), { a: [1] })
  const shared = cache.view('shared', { shared: true })
  const kept = await shared.fetch('k', () => ({ a: [1] }))
  assert.equal(shared.hit('k'), kept)
  assert.throws(() => kept.a.push(2), TypeError)
})

test('keys have the bytes that they have in every language', () => {
  for (const { key, bytes } of corpus('keys.json')) {
    if (typeof key === 'number' && !Number.isSafeInteger(key)) continue
    assert.equal(native.keyBytes(key).toString('hex'), bytes, JSON.stringify(key))
  }
  assert.equal(native.keyBytes(-9223372036854775808n).toString(), '-9223372036854775808')
  assert.equal(native.keyBytes(Buffer.from([0, 255])).toString('hex'), '00ff')
  for (const key of [1.5, NaN, -0, null, undefined, [], {}, Symbol('x'), '\ud800', [['a'], []], new Date(0)]) {
    assert.throws(() => native.keyBytes(key), KeyTypeError)
  }
})

test('the corpus is read and written as in every language', async (t) => {
  const server = await redis(t)
  const cache = new Cache('corpus', { redis: server.url, ttl: '5m' })
  const view = cache.view('golden')
  const rust = peer(t, server, 'corpus')
  for (const { name, value, messagepack } of corpus('values.json')) {
    assert.equal(await rust(`put ${hex(name)} ${messagepack}`), 'ok')
    const expected = of(value)
    assert.deepStrictEqual(await view.get(hex(name)), expected, name)
    // A number without a fraction is a whole one here.
    if (hasWholeFloat(value)) continue
    await view.set(`w${hex(name)}`, expected)
    assert.equal(await rust(`payload w${hex(name)}`), messagepack, name)
  }
  await cache.close()
})

const hex = (text) => Buffer.from(text).toString('hex')

/** A value of the corpus in JavaScript. */
function of (value) {
  const [[type, content]] = Object.entries(value)
  switch (type) {
    case 'nil': return null
    case 'bool': return content
    case 'integer': return Number.isSafeInteger(Number(content)) ? Number(content) : BigInt(content)
    case 'float': return { inf: Infinity, '-inf': -Infinity, nan: NaN }[content] ?? Number(content)
    case 'text': return content
    case 'bytes': return Buffer.from(content, 'hex')
    case 'list': return content.map(of)
    case 'map': return Object.fromEntries(content.map(([key, value]) => [key, of(value)]))
    case 'time': return new Date(content[0] * 1000 + Math.trunc(content[1] / 1e6))
  }
  throw new Error(`the corpus has a type ${type}`)
}

function hasWholeFloat (value) {
  const [[type, content]] = Object.entries(value)
  if (type === 'float') return Number.isSafeInteger(Number(content)) && !Object.is(Number(content), -0)
  // A Date has milliseconds.
  if (type === 'time') return content[1] % 1e6 !== 0
  if (type === 'list') return content.some(hasWholeFloat)
  return type === 'map' && (content.some(([, value]) => hasWholeFloat(value)) || hasReorderedNames(content))
}

/** JavaScript puts names that are whole numbers before all others. */
function hasReorderedNames (pairs) {
  const names = pairs.map(([name]) => name)
  return Object.keys(Object.fromEntries(pairs)).join() !== names.join()
}
