// What a loader gets: the stale value, and options of what it loads.
'use strict'

const native = require('./native.js')

/**
 * What a loader returns that has found the stale value unchanged: it is fresh again. From the function of an update: the value stays as
 * it is.
 */
const KEEP = Symbol('larder.KEEP')

/** What the function of an update returns to remove the value. */
const REMOVE = Symbol('larder.REMOVE')

class Options {
  #handle

  constructor (handle, signal) {
    this.#handle = handle
    this.signal = signal
  }

  ttl (time) {
    native.setTtl(this.#handle, time)
  }

  tag (tag) {
    native.addTag(this.#handle, tag)
  }

  noStore () {
    native.noStore(this.#handle)
  }
}

class Load extends Options {
  #view
  #handle

  constructor (view, handle, signal) {
    super(handle, signal)
    this.#view = view
    this.#handle = handle
  }

  get stale () {
    return native.stale(this.#view, this.#handle)
  }

  grace (time) {
    native.setGrace(this.#handle, time)
  }
}

/** For several keys: the options are those of each value. */
class BulkLoad extends Options {}

module.exports = { BulkLoad, KEEP, Load, REMOVE }
