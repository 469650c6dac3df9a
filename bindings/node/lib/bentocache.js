// A driver of BentoCache, for its layer L2.
'use strict'

const { checkOptions, openView, tagOf, ttlOf } = require('./adapter.js')
const { RedisError } = require('./errors.js')

/** How many parts of a prefix have a tag of their own. Larder has 64 tags for a value. */
const MAX_DEPTH = 60

class LarderDriver {
  type = 'l2'
  #view
  #prefix

  constructor ({ cache, view = 'bentocache', prefix = '', logger, ...others }) {
    // BentoCache adds its logger, which has nothing to say here.
    checkOptions(others, ['cache', 'view', 'prefix'])
    this.#view = openView(cache, view, ['bentocache', 1])
    this.#prefix = prefix.replace(/:+$/, '')
  }

  /** The view that has the values: `prefix:key` is a key of it. */
  get view () {
    return this.#view
  }

  namespace (namespace) {
    return new LarderDriver({ cache: this.#view.cache, view: this.#view.name, prefix: this.#keyOf(namespace) })
  }

  async get (key) {
    return this.#view.get(this.#keyOf(key))
  }

  async pull (key) {
    const own = this.#keyOf(key)
    try {
      return await this.#view.take(own)
    } catch (error) {
      if (!(error instanceof RedisError)) throw error
      // Nobody gets it rather than two.
      await this.#view.delete(own)
      return undefined
    }
  }

  async set (key, value, ttl) {
    const own = this.#keyOf(key)
    const milliseconds = ttlOf(ttl)
    if (milliseconds === 0) {
      await this.#view.delete(own)
      return true
    }
    return this.#view.set(own, value, { ttl: milliseconds, tags: this.#tagsOf(own) })
  }

  async delete (key) {
    return this.#view.delete(this.#keyOf(key))
  }

  async deleteMany (keys) {
    if (keys.length > 0) await this.#view.deleteMany(keys.map((key) => this.#keyOf(key)))
    return true
  }

  /** All values with the prefix, also those of namespaces in it, in one step. */
  async clear () {
    const prefix = this.#prefix.split(':').slice(0, MAX_DEPTH).join(':')
    await this.#view.cache.invalidateTags([tagOf(this.#view, prefix)])
  }

  /** The cache belongs to the program, which closes it. */
  async disconnect () {
    await this.#view.cache.drain()
  }

  #keyOf (key) {
    return this.#prefix === '' ? key : `${this.#prefix}:${key}`
  }

  /** A tag for each prefix of the key, since a value may be written by another namespace than it is cleared by. */
  #tagsOf (key) {
    const parts = key.split(':')
    const tags = [tagOf(this.#view, '')]
    for (let depth = 1; depth < parts.length && depth <= MAX_DEPTH; depth++) {
      tags.push(tagOf(this.#view, parts.slice(0, depth).join(':')))
    }
    return tags
  }
}

/** The driver as `useL2Layer` takes it. */
function larderDriver (options) {
  return { options, factory: (config) => new LarderDriver(config) }
}

/** Leaves a value to larder as it is: without it BentoCache stores the text of its JSON. */
const serializer = {
  serialize: (value) => value,
  deserialize: (value) => value
}

module.exports = { LarderDriver, larderDriver, serializer }
