// The calls that `larder-bench run languages` measures in Node.js, of larder and of its peers.
//
// A line on stdin names a workload, a subject and a number of calls. The answer is the nanoseconds of one call, or why there are none.
'use strict'

const { createInterface } = require('node:readline')

const KEYS = Array.from({ length: 1_000 }, (_, number) => `product:${number}`)
const VALUE = { name: 'apple', price: 3, tags: ['fruit', 'red'], description: 'a'.repeat(160), weight: 0.5 }
const TTL = 600_000
/** Room for all keys. */
const ENTRIES = 2 * KEYS.length

const load = () => VALUE

async function filled (write) {
  for (const key of KEYS) await write(key, VALUE)
}

async function ofMap () {
  const map = new Map(KEYS.map((key) => [key, VALUE]))
  return (key) => map.get(key)
}

async function ofLruCache () {
  const { LRUCache } = await import('lru-cache')
  const cache = new LRUCache({ max: ENTRIES, ttl: TTL })
  await filled((key, value) => cache.set(key, value))
  return (key) => cache.get(key)
}

async function ofQuickLru () {
  const { default: QuickLRU } = await import('quick-lru')
  const cache = new QuickLRU({ maxSize: ENTRIES, maxAge: TTL })
  await filled((key, value) => cache.set(key, value))
  return (key) => cache.get(key)
}

async function ofCacheManager () {
  const { createCache } = await import('cache-manager')
  const cache = createCache({ ttl: TTL })
  await filled((key, value) => cache.set(key, value))
  return (key) => cache.wrap(key, load)
}

async function ofKeyv () {
  const { default: Keyv } = await import('keyv')
  const cache = new Keyv({ ttl: TTL })
  await filled((key, value) => cache.set(key, value))
  return (key) => cache.get(key)
}

async function ofBentocache () {
  const { BentoCache, bentostore } = await import('bentocache')
  const { memoryDriver } = await import('bentocache/drivers/memory')
  const cache = new BentoCache({
    default: 'memory',
    stores: { memory: bentostore({ ttl: '10m' }).useL1Layer(memoryDriver({ maxSize: '64mb' })) }
  })
  await filled((key) => cache.getOrSet({ key, factory: load }))
  return (key) => cache.getOrSet({ key, factory: load })
}

/** A view that has all keys. */
async function ofLarder (name, options) {
  const { Cache } = require('larder-cache')
  const view = new Cache('bench', { ttl: TTL, memoryBytes: '64MiB' }).view(name, options)
  await filled((key, value) => view.set(key, value))
  return view
}

const shared = () => ofLarder('shared', { shared: true })

const CALLS = {
  'node-hit': {
    larder: async () => (await shared()).hit,
    'lru-cache': ofLruCache,
    'quick-lru': ofQuickLru,
    Map: ofMap
  },
  'node-fetch': {
    larder: async () => {
      const view = await shared()
      return (key) => view.fetch(key, load)
    },
    'cache-manager': ofCacheManager,
    bentocache: ofBentocache,
    keyv: ofKeyv
  },
  'node-copied': {
    larder: async () => {
      const view = await ofLarder('copied', {})
      return (key) => view.fetch(key, load)
    }
  }
}

/** The processor time of a hit, with its promise if it has one. */
async function hits (call, count) {
  const keys = Array.from({ length: count }, () => KEYS[Math.floor(Math.random() * KEYS.length)])
  const first = call(keys[0])
  const isAwaited = typeof first?.then === 'function'
  if ((await first)?.description !== VALUE.description) throw new Error('it is no hit')
  const start = process.cpuUsage()
  if (isAwaited) for (const key of keys) await call(key)
  else for (const key of keys) call(key)
  const { user, system } = process.cpuUsage(start)
  return (user + system) * 1_000 / count
}

let next = 0

/** The time of a fetch that no tier answers, with a loader that takes none. */
async function coldFetches (count) {
  const { Cache } = require('larder-cache')
  const cache = new Cache('bench-cold-node', { ttl: TTL, redis: process.argv[2] })
  const view = cache.view('cold')
  await view.fetch('connects', load)
  const start = process.hrtime.bigint()
  for (let number = 0; number < count; number++) await view.fetch(next++, load)
  const elapsed = Number(process.hrtime.bigint() - start) / count
  await cache.close()
  return elapsed
}

async function main () {
  const made = new Map()
  for await (const line of createInterface({ input: process.stdin })) {
    const [workload, subject, count] = line.split('\t')
    let answer
    try {
      if (workload === 'node-cold') {
        answer = await coldFetches(Number(count))
      } else {
        const name = `${workload} ${subject}`
        if (!made.has(name)) {
          made.set(name, await CALLS[workload][subject]())
          // For the compiler.
          await hits(made.get(name), Number(count))
        }
        answer = await hits(made.get(name), Number(count))
      }
    } catch (error) {
      answer = `failed: ${error.message}`
    }
    process.stdout.write(`${answer}\n`)
  }
  process.exit(0)
}

main()
