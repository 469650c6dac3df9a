// A storage adapter of Keyv.
'use strict'

const { EventEmitter } = require('node:events')
const { checkOptions, openView, tagOf, ttlOf } = require('./adapter.js')
const { OptionError } = require('./errors.js')

class KeyvLarder extends EventEmitter {
  #namespace
  #isFixed = false

  constructor (cache, { view = 'keyv', ...others } = {}) {
    checkOptions(others, ['view'])
    super()
    this.view = openView(cache, view, ['keyv', 1])
    // Keyv 5 reads it of every store.
    this.opts = { view }
  }

  get namespace () {
    return this.#namespace
  }

  /** Keyv writes it. The keys of another one would be those of no other process. */
  set namespace (namespace) {
    if (this.#isFixed && namespace !== this.#namespace) {
      throw new OptionError(`this store has the namespace ${shown(this.#namespace)}; for ${shown(namespace)} make another store`)
    }
    this.#namespace = namespace
    this.#isFixed = true
  }

  /** The key in the view: no key of one namespace is one of another. */
  keyOf (key) {
    this.#isFixed = true
    return [this.#namespace ?? '', key]
  }

  /** What all values of the namespace have. */
  get tag () {
    return tagOf(this.view, this.#namespace ?? '')
  }

  async get (key) {
    return this.view.get(this.keyOf(key))
  }

  async getMany (keys) {
    const own = keys.map((key) => this.keyOf(key))
    const found = await this.view.getMany(own)
    return own.map((key) => found.get(key))
  }

  async has (key) {
    return (await this.get(key)) !== undefined
  }

  async hasMany (keys) {
    return (await this.getMany(keys)).map((value) => value !== undefined)
  }

  async set (key, value, ttl) {
    const own = ttlOf(ttl)
    if (own === 0) {
      await this.delete(key)
      return true
    }
    return this.view.set(this.keyOf(key), value, { ttl: own, tags: [this.tag] })
  }

  async setMany (entries) {
    // Of several values for one key the last one counts.
    const groups = new Map()
    for (const entry of new Map(entries.map((entry) => [entry.key, entry])).values()) {
      const ttl = ttlOf(entry.ttl)
      if (!groups.has(ttl)) groups.set(ttl, [])
      groups.get(ttl).push(entry)
    }
    const written = new Map()
    await Promise.all([...groups].map(async ([ttl, group]) => {
      const isEverywhere = await this.#setGroup(group, ttl)
      for (const { key } of group) written.set(key, isEverywhere)
    }))
    return entries.map(({ key }) => written.get(key))
  }

  async #setGroup (entries, ttl) {
    if (ttl === 0) {
      await this.deleteMany(entries.map(({ key }) => key))
      return true
    }
    return this.view.setMany(entries.map(({ key, value }) => [this.keyOf(key), value]), { ttl, tags: [this.tag] })
  }

  async delete (key) {
    return this.view.delete(this.keyOf(key))
  }

  async deleteMany (keys) {
    return (await this.view.deleteMany(keys.map((key) => this.keyOf(key)))) > 0
  }

  /** All values of the namespace, in one step. */
  async clear () {
    await this.view.cache.invalidateTags([this.tag])
  }

  /** The cache belongs to the program, which closes it. */
  async disconnect () {
    await this.view.cache.drain()
  }
}

function shown (namespace) {
  return namespace === undefined ? 'undefined' : JSON.stringify(namespace)
}

/** The options of a Keyv over a store of its own: values go to larder as they are, and keys without a prefix. */
function keyvOptions (cache, { view, ...options } = {}) {
  return {
    // Of Keyv 5. Its errors are mistakes of the program: Redis is never the reason of one.
    useKeyPrefix: false,
    serialize: undefined,
    deserialize: undefined,
    throwOnErrors: true,
    // Of Keyv 6.
    serialization: false,
    ...options,
    store: new KeyvLarder(cache, { view })
  }
}

module.exports = { KeyvLarder, keyvOptions }
