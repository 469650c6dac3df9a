// A view: values of one kind in a cache.
'use strict'

const { AsyncLocalStorage } = require('node:async_hooks')
const { isExternal } = require('node:util').types
const native = require('./native.js')
const { CacheClosed, LarderError, RecursiveLoad } = require('./errors.js')
const { log } = require('./logs.js')
const { BulkLoad, KEEP, Load, REMOVE } = require('./load.js')

/** The loaders around the present caller: lists of keys, each of which ends with its loader. */
const leading = new AsyncLocalStorage()

class View {
  #handle
  /** Whether all fetches load ahead. */
  #loadsAhead
  /** What the names of its loads begin with. */
  #id

  constructor (cache, name, handle, { loadsAhead, cacheId }) {
    this.#handle = handle
    this.#loadsAhead = loadsAhead
    this.#id = `${cacheId}\0${name}\0`
    this.cache = cache
    this.name = name
    // A function of its own: what it needs is known to it, and it is what most calls are.
    this.hit = native.hitFunction(handle)
    Object.freeze(this)
  }

  async get (key) {
    const found = this.hit(key)
    return found === undefined ? native.read(this.#handle, key) : found
  }

  async getMany (keys) {
    keys = [...keys]
    return pairs(keys, await native.readMany(this.#handle, keys))
  }

  async fetch (key, loader, options) {
    if (options === undefined || !options.refresh) {
      const isAhead = this.#loadsAhead || (options !== undefined && options.refreshAhead !== undefined)
      const found = isAhead ? this.#hitAhead(key, loader, options ?? {}) : this.hit(key)
      if (found !== undefined) return found
    }
    return this.#lead(key, loader, options ?? {})
  }

  async #lead (key, loader, { signal, ...options }) {
    const own = [this.#own(key)]
    signal?.throwIfAborted()
    let leased = await waiting(own, () => abortable(signal, native.lease(this.#handle, key, options)))
    if (leased === undefined) {
      // JavaScript has no value like it.
      leased = await waiting(own, () => abortable(signal, native.lease(this.#handle, key, { ...options, refresh: true })))
    }
    if (!isExternal(leased)) return leased
    const load = new Load(this.#handle, leased, signal)
    let value
    try {
      value = await abortable(signal, run(own, loader, load))
    } catch (error) {
      if (signal?.aborted) {
        // Nobody fails because this caller has left: the next one leads.
        native.abandon(leased)
        throw error
      }
      const stale = await native.fail(this.#handle, leased, error)
      if (stale === undefined) throw error
      return stale
    }
    if (value === KEEP) return native.keep(this.#handle, leased)
    return native.complete(this.#handle, leased, value)
  }

  /** The value in memory. If it is due, it is loaded in the background: no caller waits for that. */
  #hitAhead (key, loader, { signal, ...options }) {
    const found = native.hitAhead(this.#handle, key, options)
    if (!isExternal(found)) return found
    const value = native.dueValue(this.#handle, found)
    if (value !== undefined) this.#loadAhead(key, loader, found)
    return value
  }

  async #loadAhead (key, loader, due) {
    try {
      const own = [this.#own(key)]
      const leased = await native.leadDue(this.#handle, due)
      if (!isExternal(leased)) return
      let value
      try {
        value = await run(own, loader, new Load(this.#handle, leased, undefined))
      } catch (error) {
        await native.fail(this.#handle, leased, error)
        throw error
      }
      await (value === KEEP ? native.keep(this.#handle, leased) : native.complete(this.#handle, leased, value))
    } catch (error) {
      // Nobody waits for it, and the value stays as it is.
      if (!(error instanceof CacheClosed)) log('warn', `the load ahead of key ${show(key)} of view ${show(this.name)} failed: ${error}`)
    }
  }

  async fetchMany (keys, loader, { signal, ...options } = {}) {
    keys = [...keys]
    const own = new Map(keys.map((key) => [key, this.#own(key)]))
    signal?.throwIfAborted()
    const leased = await waiting([...own.values()], () => this.#leadMany(keys, own, loader, signal, options))
    return pairs(keys, leased)
  }

  /** The values by the positions of their keys. */
  async #leadMany (keys, own, loader, signal, options) {
    let leased = await abortable(signal, native.leaseMany(this.#handle, keys, options))
    while (isExternal(leased)) {
      const wanted = native.wanted(leased).map((position) => keys[position])
      let values
      try {
        const load = new BulkLoad(leased, signal)
        values = entries(await abortable(signal, run(wanted.map((key) => own.get(key)), () => loader(wanted, load))))
      } catch (error) {
        if (signal?.aborted) {
          native.abandon(leased)
          throw error
        }
        leased = await native.failMany(this.#handle, leased, error)
        if (leased === undefined) throw error
        continue
      }
      leased = await native.completeMany(this.#handle, leased, values.map(([key]) => key), values.map(([, value]) => value))
    }
    return leased
  }

  async set (key, value, options) {
    return native.write(this.#handle, key, value, options)
  }

  async setMany (values, options) {
    const written = entries(values)
    return native.writeMany(this.#handle, written.map(([key]) => key), written.map(([, value]) => value), options)
  }

  async add (key, value, options) {
    return native.add(this.#handle, key, value, options)
  }

  async increment (key, by = 1, { initial, ...options } = {}) {
    const sum = await native.increment(this.#handle, key, by, initial, options)
    if (sum === false) throw new LarderError(`the value of key ${show(key)} is no whole number, or the sum has more than 64 bits`)
    return sum
  }

  async update (key, make, options) {
    let step = await native.update(this.#handle, key, options)
    while (isExternal(step)) {
      let made
      try {
        made = await make(native.updated(this.#handle, step))
      } catch (error) {
        native.leave(step)
        throw error
      }
      const verb = made === KEEP ? 'keep' : made === REMOVE ? 'remove' : 'put'
      step = await native.decide(this.#handle, step, verb, verb === 'put' ? made : null)
    }
    return step
  }

  async touch (key, options) {
    return native.touch(this.#handle, key, options)
  }

  async ttl (key) {
    return native.ttl(this.#handle, key)
  }

  async take (key) {
    return native.take(this.#handle, key)
  }

  async delete (key) {
    return native.remove(this.#handle, key)
  }

  async deleteMany (keys) {
    return native.removeMany(this.#handle, [...keys])
  }

  async expire (key) {
    return native.expire(this.#handle, key)
  }

  /** The key as the loads of this caller know it. Throws if it is being loaded. */
  #own (key) {
    const own = this.#id + native.keyBytes(key).toString('latin1')
    for (const loader of leading.getStore() ?? []) {
      if (loader.keys.includes(own)) {
        throw new RecursiveLoad(`the loader of key ${show(key)} of view ${show(this.name)} fetches that key: it would wait for itself`)
      }
    }
    return own
  }
}

/** Runs a loader. What it starts and does not wait for may fetch its keys later. */
async function run (keys, loader, load) {
  const leader = { keys }
  try {
    return await leading.run([...(leading.getStore() ?? []), leader], loader, load)
  } finally {
    leader.keys = []
  }
}

/** What a call results in that waits for these loads. Throws if one of them waits for a load of this caller. */
async function waiting (wanted, call) {
  const held = (leading.getStore() ?? []).flatMap(({ keys }) => keys)
  if (held.length === 0) return call()
  const wait = native.beginWait(held, wanted)
  try {
    return await call()
  } finally {
    native.endWait(wait)
  }
}

/** A promise that is rejected when the signal is aborted. A load that comes then is given up. */
function abortable (signal, promise) {
  if (signal === undefined) return promise
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    const end = () => signal.removeEventListener('abort', abort)
    promise.then((result) => {
      end()
      if (signal.aborted && isExternal(result)) native.abandon(result)
      resolve(result)
    }, (error) => {
      end()
      reject(error)
    })
    if (signal.aborted) abort()
  })
}

/** A map of the values that are there, by their keys. */
function pairs (keys, values) {
  const map = new Map()
  for (let position = 0; position < keys.length; position++) {
    if (values[position] !== undefined) map.set(keys[position], values[position])
  }
  return map
}

/** The pairs of a map, of an iterable of pairs, or of an object. */
function entries (values) {
  return typeof values?.[Symbol.iterator] === 'function' ? [...values] : Object.entries(values)
}

function show (key) {
  return typeof key === 'string' ? JSON.stringify(key) : String(key)
}

module.exports = { View }
