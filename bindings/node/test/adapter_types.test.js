// The types of the adapters fit those of their frameworks.
'use strict'

const assert = require('node:assert/strict')
const { spawnSync } = require('node:child_process')
const { join } = require('node:path')
const { test } = require('node:test')

test('TypeScript accepts what the pages show', () => {
  const compiler = require.resolve('typescript/bin/tsc')
  const { status, stdout } = spawnSync(process.execPath, [compiler, '-p', join(__dirname, 'types')], { encoding: 'utf8' })
  assert.equal(status, 0, stdout)
})
