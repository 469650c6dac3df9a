// Caches of Node.js over Redis that `larder-bench run stale` judges: each program is one node.
//
//     node peers.js glide         Valkey GLIDE with its client-side cache
//     node peers.js node-redis    node-redis with its client-side cache
//     node peers.js bentocache    bentocache with memory, Redis and its bus
//
// It obeys the lines `open`, `fetch`, `read`, `write` and `delete` of bindings/interop/protocol.md. Keys and values are plain words.
'use strict'

const { createInterface } = require('node:readline')

const TTL = 3_600_000

/** A cache without a loader: it loads as its documentation shows. */
const throughReads = ({ read, write, remove }) => ({
  read,
  write,
  remove,
  fetch: async (key, load) => {
    const found = await read(key)
    if (found !== undefined) return found
    const loaded = await load()
    await write(key, loaded)
    return loaded
  }
})

async function glide (url) {
  const { GlideClient, ProtocolVersion, ClientSideCache, TimeUnit } = require('@valkey/valkey-glide')
  const { hostname: host, port } = new URL(url)
  const client = await GlideClient.createClient({
    addresses: [{ host, port: Number(port) }],
    protocol: ProtocolVersion.RESP3,
    clientSideCache: new ClientSideCache({ maxCacheKb: 65_536, entryTtlMs: TTL, serverAssisted: true })
  })
  return throughReads({
    read: async (key) => (await client.get(key)) ?? undefined,
    write: (key, value) => client.set(key, value, { expiry: { type: TimeUnit.Milliseconds, count: TTL } }),
    remove: (key) => client.del([key])
  })
}

async function nodeRedis (url) {
  const { createClient } = require('redis')
  const client = createClient({ url, RESP: 3, clientSideCache: { ttl: TTL, maxEntries: 100_000, evictPolicy: 'LRU' } })
  client.on('error', () => {})
  await client.connect()
  return throughReads({
    read: async (key) => (await client.get(key)) ?? undefined,
    write: (key, value) => client.set(key, value, { PX: TTL }),
    remove: (key) => client.del(key)
  })
}

async function bentocache (url) {
  const { BentoCache, bentostore } = await import('bentocache')
  const { memoryDriver } = await import('bentocache/drivers/memory')
  const { redisDriver, redisBusDriver } = await import('bentocache/drivers/redis')
  const { hostname: host, port } = new URL(url)
  const connection = { host, port: Number(port) }
  const store = bentostore({ ttl: TTL })
    .useL1Layer(memoryDriver({ maxSize: '64mb' }))
    .useL2Layer(redisDriver({ connection }))
    .useBus(redisBusDriver({ connection }))
  const cache = new BentoCache({ default: 'main', stores: { main: store } })
  return {
    read: async (key) => (await cache.get({ key })) ?? undefined,
    write: (key, value) => cache.set({ key, value }),
    remove: (key) => cache.delete({ key }),
    fetch: (key, load) => cache.getOrSet({ key, factory: load })
  }
}

const CACHES = { glide, 'node-redis': nodeRedis, bentocache }

const say = (...words) => process.stdout.write(`${words.join(' ')}\n`)
const word = (value) => value === undefined ? '-' : `t${value}`
/** Of each loader that runs: what ends it. */
const loading = new Map()
let cache

async function call (name, id, key, value) {
  switch (name) {
    case 'open':
      cache = await CACHES[process.argv[2]](key)
      return ''
    case 'read':
      return word(await cache.read(key))
    case 'write':
      await cache.write(key, value.slice(1))
      return 'yes'
    case 'delete':
      await cache.remove(key)
      return 'yes yes'
    case 'fetch': {
      const load = () => new Promise((resolve) => {
        loading.set(id, resolve)
        say('loading', id, key)
      })
      return word(await cache.fetch(key, load))
    }
  }
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const [name, id, ...words] = line.split(' ')
  if (name === 'loaded') {
    loading.get(id)(words[0].slice(1))
    return
  }
  call(name, id, ...words).then((answer) => say('done', id, answer), (error) => say('failed', id, 'other', encodeURIComponent(String(error))))
}).on('close', () => process.exit())
say('ready')
