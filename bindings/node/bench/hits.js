// What a hit costs, beside other caches of Node in the same run.
//
//     npm install --prefix DIR bindings/node/larder-cache-0.1.0.tgz bindings/node/bench
//     NODE_PATH=DIR/node_modules node bindings/node/bench/hits.js
//
// Each round runs every row once, in another order; a row is the median of its rounds. Ratios are medians of the ratios of each round.
// Times are nanoseconds of processor time of the process for one call, the loop included.
'use strict'

const { Cache } = require('larder-cache')

const KEYS = Array.from({ length: 1_000 }, (_, number) => `product:${number}`)
const VALUE = { name: 'apple', price: 3, tags: ['fruit', 'red'], description: 'a'.repeat(160), weight: 0.5 }
const ROUNDS = 15
const CALLS = 20_000

/** Each row: its name, and a call that hits. */
async function rows () {
  const { LRUCache } = await import('lru-cache')
  const { default: QuickLRU } = await import('quick-lru')
  const { createCache } = await import('cache-manager')
  const { default: Keyv } = await import('keyv')
  const { BentoCache, bentostore } = await import('bentocache')
  const { memoryDriver } = await import('bentocache/drivers/memory')

  const cache = new Cache('bench', { ttl: '10m', memoryBytes: '64MiB' })
  const [shared, copied, text] = [cache.view('shared', { shared: true }), cache.view('copied'), cache.view('text')]
  const map = new Map()
  const lru = new LRUCache({ max: 2 * KEYS.length, ttl: 600_000 })
  const quick = new QuickLRU({ maxSize: 2 * KEYS.length, maxAge: 600_000 })
  const manager = createCache({ ttl: 600_000 })
  const keyv = new Keyv({ ttl: 600_000 })
  const bento = new BentoCache({
    default: 'memory',
    stores: { memory: bentostore({ ttl: '10m' }).useL1Layer(memoryDriver({ maxSize: '64mb' })) }
  })
  const load = () => VALUE
  for (const key of KEYS) {
    await Promise.all([shared.set(key, VALUE), copied.set(key, VALUE), text.set(key, VALUE.description)])
    for (const one of [map, lru, quick]) one.set(key, VALUE)
    await manager.set(key, VALUE)
    await keyv.set(key, VALUE)
    await bento.getOrSet({ key, factory: load })
  }
  return {
    'Map.get': (key) => map.get(key),
    'lru-cache get, with a TTL': (key) => lru.get(key),
    'quick-lru get, with a TTL': (key) => quick.get(key),
    'cache-manager await get': (key) => manager.get(key),
    'cache-manager await wrap': (key) => manager.wrap(key, load),
    'keyv await get': (key) => keyv.get(key),
    'bentocache await getOrSet': (key) => bento.getOrSet({ key, factory: load }),
    'larder hit, object shared': (key) => shared.hit(key),
    'larder await fetch, object shared': (key) => shared.fetch(key, load),
    'larder await get, text': (key) => text.get(key),
    'larder await fetch, object copied': (key) => copied.fetch(key, load)
  }
}

const RATIOS = [
  ['larder await fetch, object shared', 'cache-manager await wrap', 0.25],
  ['larder await fetch, object shared', 'bentocache await getOrSet', 0.04],
  ['larder hit, object shared', 'lru-cache get, with a TTL', 5],
  ['larder await fetch, object copied', 'cache-manager await wrap', undefined]
]

const median = (numbers) => [...numbers].sort((one, other) => one - other)[numbers.length >> 1]

/** Nanoseconds of a call. A call with a promise is awaited. */
async function measure (call, random) {
  const keys = Array.from({ length: CALLS }, () => KEYS[Math.floor(random() * KEYS.length)])
  const isAwaited = typeof call(keys[0])?.then === 'function'
  const start = process.cpuUsage()
  if (isAwaited) for (const key of keys) await call(key)
  else for (const key of keys) call(key)
  const { user, system } = process.cpuUsage(start)
  return (user + system) * 1_000 / CALLS
}

/** Numbers from 0 to 1, the same in each run. */
function sequence (state) {
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32
    return state / 2 ** 32
  }
}

async function main () {
  const calls = Object.entries(await rows())
  const times = new Map(calls.map(([name]) => [name, []]))
  const random = sequence(7)
  for (let round = -1; round < ROUNDS; round++) {
    const order = calls.map((call) => [random(), call]).sort(([one], [other]) => one - other)
    for (const [, [name, call]] of order) {
      const time = await measure(call, random)
      // The first round is for the compiler.
      if (round >= 0) times.get(name).push(time)
    }
  }
  for (const [name, measured] of times) console.log(`${name.padEnd(40)} ${median(measured).toFixed(0).padStart(7)} ns`)
  console.log()
  for (const [ours, theirs, goal] of RATIOS) {
    const ratio = median(times.get(ours).map((time, round) => time / times.get(theirs)[round]))
    console.log(`${ours} ÷ ${theirs}: ${ratio.toFixed(3)}${goal === undefined ? '' : ` (goal ${goal})`}`)
  }
  process.exit(0)
}

main()
