// Worker threads, the end of a thread and of a process, and what is left in memory.
'use strict'

const assert = require('node:assert/strict')
const { test } = require('node:test')
const { redis, run } = require('./support.js')

test('worker threads share memory and loads', async () => {
  const { printed, code } = await run(`
    const { Worker, isMainThread, parentPort } = require('node:worker_threads')
    const { Cache } = require('larder-cache')
    const cache = new Cache('threads', { ttl: '5m' })
    const view = cache.view('v', { shared: true })
    const source = \`
      const { parentPort } = require('node:worker_threads')
      const { Cache } = require('larder-cache')
      const view = new Cache('threads', { ttl: '5m' }).view('v', { shared: true })
      const first = view.hit('written')
      view.fetch('loaded', () => new Promise((resolve) => setTimeout(resolve, 100, { by: 'a worker' }))).then((loaded) => {
        parentPort.postMessage([first, view.hit('written') === first, Object.isFrozen(first), loaded])
      })
    \`
    view.set('written', { by: 'main' }).then(async () => {
      const kept = view.hit('written')
      const ends = await Promise.all([1, 2, 3].map(() => new Promise((resolve) => new Worker(source, { eval: true }).once('message', resolve))))
      console.log(JSON.stringify(ends))
      console.log(view.hit('written') === kept, JSON.stringify(view.hit('loaded')), cache.stats().loads)
    })
  `)
  const [ends, rest] = printed.split('\n')
  for (const end of JSON.parse(ends)) assert.deepStrictEqual(end, [{ by: 'main' }, true, true, { by: 'a worker' }])
  assert.equal(rest, 'true {"by":"a worker"} 1')
  assert.equal(code, 0)
})

test('threads end while their promises are pending', async (t) => {
  const { url } = await redis(t)
  const { printed, code, signal } = await run(`
    const { Worker } = require('node:worker_threads')
    const { Cache } = require('larder-cache')
    const cache = new Cache('ends', { ttl: '5m', redis: process.env.REDIS })
    const view = cache.view('v')
    const source = \`
      const { parentPort, workerData } = require('node:worker_threads')
      const { Cache } = require('larder-cache')
      const view = new Cache('ends', { ttl: '5m', redis: process.env.REDIS }).view('v')
      for (let n = 0; n < 20; n++) {
        view.set(n, { n, worker: workerData })
        view.fetch('load' + workerData + n, () => new Promise(() => {}))
        view.fetch('shared' + n % 3, () => new Promise(() => {}))
      }
      setImmediate(() => parentPort.postMessage('started'))
    \`
    ;(async () => {
      for (let number = 0; number < 200; number += 10) {
        await Promise.all(Array.from({ length: 10 }, async (_, n) => {
          const worker = new Worker(source, { eval: true, workerData: number + n })
          await new Promise((resolve) => worker.once('message', resolve))
          await worker.terminate()
        }))
      }
      console.log(await view.fetch('shared0', () => 'the next one leads'))
      await cache.close()
    })()
  `, { REDIS: url }, 120_000)
  assert.deepStrictEqual({ printed, code, signal }, { printed: 'the next one leads', code: 0, signal: null })
})

test('a process ends when nothing is under way, and waits for its calls', async (t) => {
  const { url } = await redis(t)
  const idle = await run('new (require("larder-cache").Cache)("e", { ttl: "5m", redis: process.env.REDIS }).view("v").set("k", 1).then(() => console.log("set"))', { REDIS: url })
  assert.deepStrictEqual(idle, { printed: 'set', code: 0, signal: null })
  const exits = await Promise.all(Array.from({ length: 8 }, (_, n) => run(`
    const { Cache } = require('larder-cache')
    const view = new Cache('exits', { ttl: '5m', redis: process.env.REDIS }).view('v')
    view.set('k', 1).then(() => {
      for (let n = 0; n < 50; n++) { view.set(n, n); view.fetch('f' + n, () => new Promise(() => {})) }
      if (${n} % 2) process.exit(0)
      else setImmediate(() => { throw new Error('on purpose') })
    })
  `, { REDIS: url })))
  for (const [n, { code, signal }] of exits.entries()) assert.deepStrictEqual({ code, signal }, { code: n % 2 ? 0 : 1, signal: null })
})

test('the end of a process gives its pending invalidations two seconds', async (t) => {
  const server = await redis(t)
  // Redis does not answer for a second: the deletion is pending when the process exits.
  const { printed, code } = await run(`
    const { Cache, onLog } = require('larder-cache')
    const { connect } = require('node:net')
    onLog(() => {})
    const cache = new Cache('drain', { ttl: '5m', redis: process.env.REDIS, redisTimeout: 100 })
    const view = cache.view('v')
    ;(async () => {
      await view.set('k', 1)
      connect(process.env.REDIS.slice('redis+unix://'.length)).end('CLIENT PAUSE 1000 ALL\\r\\n')
      await new Promise((resolve) => setTimeout(resolve, 50))
      await view.delete('k')
      console.log(cache.coherence().pendingInvalidations)
      process.exit(0)
    })()
  `, { REDIS: server.url })
  assert.deepStrictEqual([printed, code], ['1', 0])
  assert.match(await server.command('EXISTS', 'drain:v:k'), /^:0/)
})

test('memory stays within its bound through a million writes', async () => {
  const { printed, code } = await run(`
    const { Cache } = require('larder-cache')
    const cache = new Cache('flat', { ttl: '5m', memoryBytes: '4MiB' })
    const view = cache.view('v', { shared: true })
    const megabytes = () => { gc(); return process.memoryUsage().rss / 2 ** 20 }
    ;(async () => {
      let first
      for (let round = 0; round < 100; round++) {
        await view.setMany(Array.from({ length: 10_000 }, (_, n) => ['key ' + (round * 10_000 + n) % 50_000, { n, text: 'x'.repeat(100) }]))
        for (let n = 0; n < 1_000; n++) view.hit('key ' + (round * 10_000 + n * 10) % 50_000)
        if (round === 19) first = megabytes()
      }
      const grown = megabytes() - first
      console.log(grown < 40 ? 'flat' : 'grown by ' + grown)
      await cache.close()
    })()
  `, {}, 240_000)
  assert.deepStrictEqual([printed, code], ['flat', 0])
})
