// The package larder-cache.
'use strict'

const { Cache } = require('./cache.js')
const { View } = require('./view.js')
const { KEEP, REMOVE } = require('./load.js')
const { onLog } = require('./logs.js')
const {
  CacheClosed,
  Contended,
  EncodeError,
  KeyTypeError,
  LarderError,
  LoadFailed,
  LoadTimeout,
  OptionError,
  RecursiveLoad,
  RedisError
} = require('./errors.js')

module.exports = {
  Cache,
  View,
  KEEP,
  REMOVE,
  onLog,
  CacheClosed,
  Contended,
  EncodeError,
  KeyTypeError,
  LarderError,
  LoadFailed,
  LoadTimeout,
  OptionError,
  RecursiveLoad,
  RedisError
}
