// Functions that are cached by their arguments.
'use strict'

const native = require('./native.js')
const { KeyTypeError } = require('./errors.js')

/** A function with the same arguments, whose results are in a view. */
function wrap (view, load, { key = keyOf, tags, ...options }) {
  const optionsOf = (given) => {
    if (tags === undefined) return options
    return { ...options, tags: typeof tags === 'function' ? tags(...given) : tags }
  }
  const cached = async function (...given) {
    return view.fetch(key(...given), () => load.apply(this, given), optionsOf(given))
  }
  return Object.assign(cached, { key, view, delete: async (...given) => view.delete(key(...given)) })
}

/** A key of the arguments of a call. Arguments of different types never make the same key. */
function keyOf (...given) {
  // A call without the last arguments is one with `undefined`.
  while (given.length > 0 && given[given.length - 1] === undefined) given.pop()
  return given.length === 0 ? '' : given.map(partOf)
}

function partOf (value) {
  if (value === undefined) return '~'
  if (value === null) return '-'
  if (typeof value === 'string') return `'${value}`
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (value instanceof Uint8Array) return `b'${Buffer.from(value).toString('hex')}`
  if (Array.isArray(value)) return `(${native.keyBytes(['', ...value.map(partOf)])}`
  throw new KeyTypeError(`an argument is of type ${typeof value}: give wrap a function key that makes a key of the arguments`)
}

module.exports = { wrap }
