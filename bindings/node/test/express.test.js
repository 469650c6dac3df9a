// The example over Express, as a process of its own with a real Redis.
'use strict'

const assert = require('node:assert/strict')
const { spawn } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { createInterface } = require('node:readline')
const { test } = require('node:test')
const { eventually, redis } = require('./support.js')

const APPLE = { id: 'apple', name: 'Apple', price: 120 }

/** Starts the app on a free port. It finds the packages of these tests. */
async function start (t, server) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'larder-express-'))
  t.after(() => fs.rmSync(folder, { recursive: true }))
  const source = path.join(process.env.LARDER_ROOT, 'bindings/node/examples/express')
  for (const file of ['server.js', 'index.html']) fs.copyFileSync(path.join(source, file), path.join(folder, file))
  fs.symlinkSync(path.join(path.dirname(require.resolve('express/package.json')), '..'), path.join(folder, 'node_modules'))
  const environment = { ...process.env, PORT: '0', REDIS_URL: server.url, ORIGIN_FILE: '' }
  const child = spawn(process.execPath, [path.join(folder, 'server.js')], { env: environment, stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  const { value: address } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
  assert.match(address ?? 'it has ended', /^http:/)
  const call = async (way, options) => {
    const response = await fetch(address + way, options)
    const isJson = response.headers.get('Content-Type').startsWith('application/json')
    return { status: response.status, body: isJson ? await response.json() : await response.text(), headers: response.headers }
  }
  return {
    child,
    call,
    get: (id) => call(`/products/${id}`),
    put: (id, body, type = 'application/json') => call(`/products/${id}`, { method: 'PUT', headers: { 'Content-Type': type }, body }),
    figure: async (name) => {
      const { body } = await call('/metrics')
      const line = body.split('\n').find((line) => line.startsWith(`${name} `))
      return line && Number(line.slice(name.length + 1))
    }
  }
}

const LOADS = 'larder_tier_operations_total{part="shop",tier="origin",operation="load"}'
const MISSES = 'larder_tier_lookups_total{part="shop",tier="redis",outcome="miss"}'

test('of several requests one loads, and later ones are hits', async (t) => {
  const app = await start(t, await redis(t))
  const first = await Promise.all([app.get('apple'), app.get('apple')])
  for (const { status, body } of first) assert.deepStrictEqual([status, body], [200, APPLE])
  assert.equal(await app.figure(LOADS), 1)
  assert.deepStrictEqual(first.map(({ headers }) => headers.get('Cache-Status')).sort(), ['Express; fwd=miss', 'Express; hit'])
  assert.equal((await app.get('apple')).headers.get('Cache-Status'), 'Express; hit')
  assert.equal(await app.figure(LOADS), 1)
})

test('a change is shown by the next answer, also if a load was under way', async (t) => {
  const app = await start(t, await redis(t))
  await app.get('apple')
  for (let price = 1; price <= 3; price++) {
    const changed = { ...APPLE, price }
    assert.deepStrictEqual((await app.put('apple', JSON.stringify({ price }))).body, changed)
    assert.deepStrictEqual((await app.get('apple')).body, changed)
    assert.deepStrictEqual((await app.get('apple')).body, changed)
  }
  const before = await app.figure(MISSES)
  const loading = app.get('plum')
  await eventually('the old price is being loaded', async () => await app.figure(MISSES) > before)
  await app.put('plum', '{"price": 7}')
  await loading
  assert.equal((await app.get('plum')).body.price, 7)
  assert.equal((await app.get('plum')).body.price, 7)
})

test('the page and the figures are there', async (t) => {
  const app = await start(t, await redis(t))
  const page = await app.call('/')
  assert.equal(page.status, 200)
  assert.match(page.body, /<button>Change the price<\/button>/)
  assert.doesNotMatch(page.body, /https?:/, 'it needs nothing from elsewhere')
  const { body, headers } = await app.call('/metrics')
  assert.match(headers.get('Content-Type'), /^text\/plain; version=/)
  for (const family of ['tier_lookups_total counter', 'tier_operations_total counter', 'tier_entries gauge', 'coherent gauge']) {
    assert.ok(body.includes(`# TYPE larder_${family}\n`), body)
  }
  assert.match(body, /^process_cpu_seconds_total /m)
})

test('what is wrong is refused with a reason', async (t) => {
  const app = await start(t, await redis(t))
  for (const [body, shown] of [['{"price": "abc"}', '"abc"'], ['{"price": 1.5}', '1.5'], ['{"price": -1}', '-1'], ['{"price": 1000001}', '1000001'], ['[]', 'null']]) {
    const { status, body: { error } } = await app.put('apple', body)
    assert.deepStrictEqual([status, error], [400, `price is ${shown}; it must be a whole number of cents from 0 to 1000000`])
  }
  assert.equal((await app.put('apple', '{"price": ')).status, 400)
  assert.equal((await app.put('apple', '{"price": 1}', 'text/plain')).status, 400)
  for (const id of ['nothing', 'toString', '%00', 'x'.repeat(2000)]) {
    const { status, body } = await app.get(id)
    assert.equal(status, 404, JSON.stringify(body))
    assert.match(body.error, /^there is no product "/)
  }
  assert.equal((await app.put('nothing', '{"price": 1}')).status, 404)
  assert.equal((await app.get('%ff')).status, 400)
  assert.deepStrictEqual((await app.get('apple')).body, APPLE)
  assert.equal(await app.figure('larder_tier_entries{part="shop",tier="memory"}'), 1, 'of the other names nothing is kept')
})

test('without Redis it answers, and tells Redis later what has changed', async (t) => {
  const server = await redis(t)
  const app = await start(t, server)
  await app.get('apple')
  await server.stop()
  assert.deepStrictEqual((await app.get('apple')).body, APPLE)
  assert.equal((await app.get('pear')).body.price, 150)
  assert.equal((await app.put('apple', '{"price": 5}')).status, 200)
  assert.equal((await app.get('apple')).body.price, 5)
  await eventually('the figures tell that Redis is away', async () => await app.figure('larder_coherent{part="shop"}') === 0)
  assert.ok(await app.figure('larder_pending_invalidations{part="shop"}') > 0)
  await server.start()
  await eventually('the invalidation is confirmed', async () => await app.figure('larder_pending_invalidations{part="shop"}') === 0)
  assert.equal((await app.get('apple')).body.price, 5)
})

test('it ends when it is told to', async (t) => {
  const app = await start(t, await redis(t))
  await app.get('apple')
  const ended = new Promise((resolve) => app.child.once('exit', (code, signal) => resolve([code, signal])))
  app.child.kill('SIGTERM')
  assert.deepStrictEqual(await ended, [0, null])
})
