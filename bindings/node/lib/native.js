// The native part, in this environment: the main thread's or a worker's.
'use strict'

const { isMainThread } = require('node:worker_threads')
const { makeError } = require('./errors.js')
const { log } = require('./logs.js')

const platform = `${process.platform}-${process.arch}`

let native
try {
  native = require(`./${platform}.node`)
} catch (error) {
  throw new Error(`larder-cache has no native part for ${platform}: build it with \`npm run build\``, { cause: error })
}
native.begin(makeError, log)
// After `process.exit()` too; of a worker the others go on.
if (isMainThread) process.on('exit', () => native.drainAll())

module.exports = native
