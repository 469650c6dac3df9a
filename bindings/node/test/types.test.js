// The types: a program that uses them is checked by TypeScript, and they name what the package has.
'use strict'

const assert = require('node:assert/strict')
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const { test } = require('node:test')
const larder = require('larder-cache')

test('a typed program compiles, and its mistakes do not', () => {
  const compiler = require.resolve('typescript/bin/tsc')
  const options = ['--noEmit', '--strict', '--skipLibCheck', 'false', '--module', 'node16', '--target', 'es2022', '--types', 'node']
  const { status, stdout } = spawnSync(process.execPath, [compiler, ...options, 'typed_program.ts'], { cwd: __dirname, encoding: 'utf8' })
  assert.equal(status, 0, stdout)
})

test('the types name every export and every method, and no other', () => {
  const types = fs.readFileSync(require.resolve('larder-cache').replace(/js$/, 'd.ts'), 'utf8')
  const declared = [...types.matchAll(/^export (?:class|const|function) (\w+)/gm)].map(([, name]) => name)
  assert.deepStrictEqual(declared.sort(), Object.keys(larder).sort())
  for (const name of ['Cache', 'View']) {
    const [, body] = types.match(new RegExp(`^export class ${name}\\b.*?\\{$(.*?)^\\}`, 'ms'))
    const declared = new Set([...body.matchAll(/^ {2}(\w+)(?:<.*?>)? \(/gm)].map(([, name]) => name))
    declared.add('constructor')
    assert.deepStrictEqual([...declared].sort(), Object.getOwnPropertyNames(larder[name].prototype).sort())
  }
})
