// What the adapters share: views whose times are the framework's, and tags for what is cleared together.
'use strict'

const { createHash } = require('node:crypto')
const { Cache } = require('./cache.js')
const { OptionError } = require('./errors.js')

/** A hundred years: larder has no value without an end. */
const NEVER = 100 * 365 * 24 * 3600 * 1000
/** As larder bounds them. */
const MAX_TAG_BYTES = 255

/** A view without a time of its own: the framework says for how long a value is there. */
function openView (cache, name, schema) {
  if (!(cache instanceof Cache)) throw new OptionError(`cache is of type ${typeof cache}; it must be a Cache of larder-cache`)
  if (typeof name !== 'string') throw new OptionError(`view is of type ${typeof name}; it must be a name`)
  return cache.view(name, { schema, ttl: NEVER, grace: 0, jitter: 0 })
}

/** The time to live of a value, in milliseconds: 0 if it has ended already. For the frameworks 0 is none. */
function ttlOf (ttl) {
  if (ttl === undefined || ttl === null || ttl === 0 || ttl === Infinity) return NEVER
  return ttl < 0 ? 0 : ttl
}

/** The tag of all values of a view that have this prefix. */
function tagOf (view, prefix) {
  const tag = `${view.name}:${prefix}`
  if (Buffer.byteLength(tag) <= MAX_TAG_BYTES) return tag
  return `${view.name}:#${createHash('sha256').update(prefix).digest('hex')}`
}

/** An adapter has only the options that it names: a misspelt one would be without effect. */
function checkOptions (options, known) {
  for (const name of Object.keys(options)) {
    if (!known.includes(name)) throw new OptionError(`there is no option ${JSON.stringify(name)}; there are ${known.join(', ')}`)
  }
}

module.exports = { checkOptions, openView, tagOf, ttlOf }
