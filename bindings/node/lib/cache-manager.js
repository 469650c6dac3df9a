// A cache of cache-manager whose wrap loads once for all processes.
'use strict'

const { ttlOf } = require('./adapter.js')
const { LoadFailed, OptionError } = require('./errors.js')
const { KeyvLarder } = require('./keyv.js')

/** What a wrapped function that returns undefined leaves: no value, but those who wait have their answer. */
const ABSENT = { isAbsent: true }

/** The same cache with another wrap. The options are those of createCache. */
function singleFlight (manager, { ttl: defaultTtl, refreshThreshold: defaultThreshold } = {}) {
  const store = storeOf(manager)
  const emitter = emitterOf(manager)
  /** The keys that are being loaded again. A second refresh would begin after the first one. */
  const refreshing = new Set()

  async function wrap (key, load, ttlOrOptions, threshold) {
    const options = isObject(ttlOrOptions) ? ttlOrOptions : { ttl: ttlOrOptions, refreshThreshold: threshold }
    let isLoaded = false
    const loader = async (larder) => {
      const value = await load()
      isLoaded = true
      const entry = entryOf(value, larder, called(options.ttl, value) ?? defaultTtl)
      larder.tag(store.tag)
      return entry
    }
    let entry = await fetch(key, loader)
    if (!isLoaded && !entry.isAbsent && entry.value === undefined) {
      // Somebody has set undefined, which is no value for wrap.
      entry = await fetch(key, loader, true)
    }
    if (isLoaded) {
      emitSet(key, entry.value)
    } else if (isBelow(entry, called(options.refreshThreshold, entry.value) ?? defaultThreshold)) {
      refresh(key, loader, entry.value)
    }
    if (!options.raw || entry.isAbsent) return entry.value
    return entry
  }

  async function fetch (key, loader, refresh = false) {
    try {
      return await store.view.fetch(store.keyOf(key), loader, { refresh })
    } catch (error) {
      // For cache-manager all who wait get the error of the function.
      throw error instanceof LoadFailed && error.cause !== undefined ? error.cause : error
    }
  }

  async function refresh (key, loader, value) {
    if (refreshing.has(key)) return
    refreshing.add(key)
    try {
      const entry = await fetch(key, loader, true)
      emitSet(key, entry.value)
      emitter.emit('refresh', { key, value: entry.value })
    } catch (error) {
      emitter.emit('refresh', { key, value, error })
    } finally {
      refreshing.delete(key)
    }
  }

  function emitSet (key, value) {
    emitter.emit('set', { key, value, store: 'primary' })
    emitter.emit('set', { key, value })
  }

  return { ...manager, wrap }
}

/** The one store, whose values wrap can read and write as the other calls do. */
function storeOf ({ stores }) {
  const [keyv] = stores
  const isOurs = stores.length === 1 && keyv.store instanceof KeyvLarder
  if (isOurs && keyv.useKeyPrefix === false && keyv.serialize === undefined && keyv.compression === undefined) return keyv.store
  throw new OptionError('singleFlight needs a cache with one store, which is new Keyv(keyvOptions(…)) of Keyv 5')
}

/** The emitter of the cache: `on` returns it. */
function emitterOf (manager) {
  const nothing = () => {}
  manager.on('refresh', nothing)
  return manager.off('refresh', nothing)
}

/** A value as Keyv stores it. */
function entryOf (value, larder, ttl) {
  const milliseconds = ttlOf(ttl)
  if (value === undefined || milliseconds === 0) larder.noStore()
  if (value === undefined) return ABSENT
  if (milliseconds > 0) larder.ttl(milliseconds)
  return { value, expires: ttl > 0 && ttl < Infinity ? Date.now() + ttl : undefined }
}

/** Whether less than the threshold is left of the time to live. */
function isBelow ({ expires }, threshold) {
  return typeof expires === 'number' && typeof threshold === 'number' && expires - Date.now() < threshold
}

function called (option, value) {
  return typeof option === 'function' ? option(value) : option
}

function isObject (value) {
  return typeof value === 'object' && value !== null
}

module.exports = { singleFlight }
