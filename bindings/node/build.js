// Builds the native part with cargo and puts it beside the modules, so that `npm pack` takes it.
'use strict'

const { execFileSync } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')

const words = ['build', '--release', '--locked', '--message-format=json', '--manifest-path', path.join(__dirname, 'Cargo.toml')]
const printed = execFileSync('cargo', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 2 ** 28 })
const artifacts = printed.trim().split('\n').map((line) => JSON.parse(line))
const library = artifacts.find(({ reason, target }) => reason === 'compiler-artifact' && target.name === 'larder_node')
const to = path.join(__dirname, 'lib', `${process.platform}-${process.arch}.node`)
fs.copyFileSync(library.filenames[0], to)
console.log(to)
