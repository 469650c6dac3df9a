// The suite of Keyv's storage adapters, for the Keyv and the options that KEYV and PLAIN name.
import { randomUUID } from 'node:crypto'
import * as test from 'vitest'
import keyvTestSuite from '@keyv/test-suite'
import { Cache } from 'larder-cache'
import { KeyvLarder, keyvOptions } from 'larder-cache/keyv'

const { Keyv } = await import(process.env.KEYV)
const cache = new Cache(`suite-${randomUUID()}`, { ttl: '5m', redis: process.env.REDIS })
const store = () => new KeyvLarder(cache)

/** A Keyv with the options that this package recommends, over the store that the suite has made. */
class OfOptions extends Keyv {
  constructor (options) {
    super({ ...keyvOptions(cache), ...options })
  }
}

test.describe(`Keyv with ${process.env.PLAIN ? 'its own options' : 'keyvOptions'}`, () => {
  keyvTestSuite(test, process.env.PLAIN ? Keyv : OfOptions, store)
  test.afterAll(() => cache.close())
})
