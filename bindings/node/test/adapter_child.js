// A process of a test: it calls what its parent names, of the adapter that is its argument.
'use strict'

const { setTimeout: pause } = require('node:timers/promises')
const { Cache } = require('larder-cache')

const cache = new Cache(process.env.NAMESPACE, { ttl: '5m', redis: process.env.REDIS })

/** A function that takes a while, and counts. */
let loads = 0
const loader = (value, milliseconds) => async () => {
  loads++
  await pause(milliseconds)
  return value
}

const adapters = {
  keyv () {
    const { Keyv } = require('keyv')
    const { keyvOptions } = require('larder-cache/keyv')
    const keyv = new Keyv(keyvOptions(cache, { namespace: 'users' }))
    return {
      get: (key) => keyv.get(key),
      set: (key, value) => keyv.set(key, value),
      delete: (key) => keyv.delete(key),
      clear: () => keyv.clear()
    }
  },

  'cache-manager' () {
    const { createCache } = require('cache-manager')
    const { Keyv } = require('keyv')
    const { singleFlight } = require('larder-cache/cache-manager')
    const { keyvOptions } = require('larder-cache/keyv')
    const manager = singleFlight(createCache({ stores: [new Keyv(keyvOptions(cache))] }))
    return {
      get: (key) => manager.get(key),
      set: (key, value) => manager.set(key, value),
      delete: (key) => manager.del(key),
      clear: () => manager.clear(),
      wrap: (key, value, milliseconds, ...options) => manager.wrap(key, loader(value, milliseconds), ...options)
    }
  },

  async bentocache () {
    const { BentoCache, bentostore } = await import('bentocache')
    const { larderDriver, serializer } = require('larder-cache/bentocache')
    const store = bentostore().useL2Layer(larderDriver({ cache }))
    const bento = new BentoCache({ default: 'shop', stores: { shop: store }, serializer })
    return {
      get: (key) => bento.get({ key }),
      set: (key, value, tags) => bento.set({ key, value, tags }),
      delete: (key) => bento.delete({ key }),
      deleteByTag: (tag) => bento.deleteByTag({ tags: [tag] }),
      clear: () => bento.clear(),
      getOrSet: (key, value, milliseconds) => bento.getOrSet({ key, factory: loader(value, milliseconds) })
    }
  }
}

const ready = Promise.resolve(adapters[process.argv[2]]()).then((functions) => ({
  ...functions,
  loads: () => loads,
  memoryHits: () => cache.stats().memory.hits
}))

process.on('message', async ({ number, name, given }) => {
  try {
    process.send({ number, result: await (await ready)[name](...given) })
  } catch (error) {
    process.send({ number, error: String(error.stack) })
  }
})
process.on('disconnect', () => cache.close())
