// The errors of the package. A failure of Redis is never the reason why a fetch fails: the cache then loads.
'use strict'

/** The base of all errors of the package. */
class LarderError extends Error {
  get name () {
    return this.constructor.name
  }
}

/** An option is unknown, or its value is none of the valid ones, which the message names. */
class OptionError extends LarderError {}

/** A key is of a type that no key has. */
class KeyTypeError extends LarderError {}

/** A value cannot be written. It is stored nowhere. */
class EncodeError extends LarderError {}

/** The loader of another caller failed. Its error is the `cause`. */
class LoadFailed extends LarderError {}

/** The load exceeded its `hardTimeout`, and there was no stale value. */
class LoadTimeout extends LarderError {}

/** A loader fetched its own key, or one whose loader waits for its own key: it would wait for itself. */
class RecursiveLoad extends LarderError {}

/** Redis did not confirm, refused, or was not asked. Of an invalidation this is no error: it is queued. */
class RedisError extends LarderError {}

/** Other nodes changed the key between a read and a write, again and again. Nothing was stored. */
class Contended extends RedisError {}

/** The cache was closed. */
class CacheClosed extends LarderError {}

const classes = {
  LarderError,
  OptionError,
  KeyTypeError,
  EncodeError,
  LoadFailed,
  LoadTimeout,
  RecursiveLoad,
  RedisError,
  Contended,
  CacheClosed
}

/** For the native part. */
function makeError (name, message, cause) {
  return new classes[name](message, cause === undefined ? undefined : { cause })
}

module.exports = { ...classes, makeError }
