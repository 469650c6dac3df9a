// The log of larder: what does not work while the cache goes on.
'use strict'

let write = warn

function warn (level, message) {
  if (level !== 'info') process.emitWarning(message, { type: 'LarderWarning' })
}

/** For the native part. */
function log (level, message) {
  write(level, message)
}

function onLog (listener) {
  write = listener ?? warn
}

module.exports = { log, onLog }
