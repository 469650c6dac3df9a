// The suite of BentoCache's drivers. Prints a line of JSON for each test.
import { randomUUID } from 'node:crypto'
import { assert } from '@japa/assert'
import { configure, run, test } from '@japa/runner'
import { ndjson } from '@japa/runner/reporters'
import { registerCacheDriverTestSuite } from 'bentocache/test_suite'
import { Cache } from 'larder-cache'
import { LarderDriver } from 'larder-cache/bentocache'

const cache = new Cache(`suite-${randomUUID()}`, { ttl: '5m', redis: process.env.REDIS })

function register () {
  test.group('larder-cache', (group) => {
    registerCacheDriverTestSuite({
      test,
      group,
      createDriver: (options) => new LarderDriver({ cache, prefix: 'japa', ...options })
    })
  })
}

configure({
  // Japa accepts tests only while it imports files.
  files: () => [new URL(import.meta.url)],
  importer: register,
  plugins: [assert()],
  reporters: { activated: ['ndjson'], list: [ndjson()] }
})
await run()
await cache.close()
