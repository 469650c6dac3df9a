// A cache: a namespace with its tiers.
'use strict'

const native = require('./native.js')
const { OptionError } = require('./errors.js')
const { View } = require('./view.js')
const { wrap } = require('./wrap.js')

/** The options whose number is one of milliseconds. */
const TIMES = new Set(native.timeOptions())

class Cache {
  #handle

  constructor (namespace, options = {}) {
    const pairs = []
    for (const [name, value] of Object.entries(options)) {
      if (value !== undefined && value !== null) pairs.push(pair(name, value))
    }
    // Threads of this process that give the same options have the same cache.
    pairs.sort(([one], [other]) => (one < other ? -1 : 1))
    this.#handle = native.openCache(namespace, pairs)
    this.namespace = namespace
    Object.freeze(this)
  }

  view (name, { schema = [name, 1], codec = 'messagepack', shared = false, ...options } = {}) {
    const [schemaName, number] = checkSchema(schema)
    if (typeof shared !== 'boolean') throw new OptionError(`shared is ${String(shared)}; it must be true or false`)
    const loadsAhead = !['never', undefined, null].includes(options.refreshAhead)
    return new View(this, name, native.openView(this.#handle, name, schemaName, number, shared, codec, options), { loadsAhead, cacheId: native.cacheId(this.#handle) })
  }

  wrap (name, load, { schema = ['cached', 1], ...options } = {}) {
    return wrap(this.view(name, { schema }), load, options)
  }

  invalidateTags (tags, { soft = false } = {}) {
    return promised(() => native.invalidateTags(this.#handle, tags, soft))
  }

  clear () {
    return promised(() => native.clear(this.#handle))
  }

  deleteMatched (pattern) {
    return promised(() => native.deleteMatched(this.#handle, pattern))
  }

  drain (limit = 2000) {
    return promised(() => native.drain(this.#handle, limit))
  }

  async close (limit = 2000) {
    let pending
    try {
      pending = await native.drain(this.#handle, limit)
    } catch (error) {
      // It was closed already.
      if (error.name === 'CacheClosed') return 0
      throw error
    }
    native.releaseCache(this.#handle)
    return pending
  }

  setEnabled (enabled) {
    native.setEnabled(this.#handle, Boolean(enabled))
  }

  coherence () {
    return native.coherence(this.#handle)
  }

  stats () {
    return native.stats(this.#handle)
  }
}

/** A mistake in the arguments rejects, as everything else that goes wrong later. */
async function promised (call) {
  return call()
}

/** An option of larder: its name there, and its value as text. */
function pair (name, value) {
  const known = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  if (typeof value === 'object' || typeof value === 'function' || typeof value === 'symbol') {
    throw new OptionError(`${name} is of type ${typeof value}; it must be a text, a number or a boolean`)
  }
  return [known, typeof value === 'number' && TIMES.has(known) ? `${value}ms` : String(value)]
}

function checkSchema (schema) {
  const [name, number] = Array.isArray(schema) ? schema : []
  if (typeof name === 'string' && Number.isInteger(number) && number >= 0 && number < 2 ** 32 && schema.length === 2) return schema
  throw new OptionError(`schema is ${JSON.stringify(schema)}; it must be a name and a number from 0 to 2^32 - 1, as in ["product", 3]`)
}

module.exports = { Cache, promised }
