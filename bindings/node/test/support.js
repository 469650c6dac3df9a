// What several tests need: a server, a node in Rust, and waiting.
'use strict'

const { spawn } = require('node:child_process')
const { createInterface } = require('node:readline')
const { setTimeout: pause } = require('node:timers/promises')
const { startRedis } = require('./redis.js')

/** A server that ends with its test. */
async function redis (t) {
  const server = await startRedis()
  t.after(() => server.close())
  return server
}

/** A node in Rust: a function that sends it a line and returns the line of its answer. */
function peer (t, server, namespace) {
  const program = process.env.LARDER_PEER
  if (!program) throw new Error('LARDER_PEER names no program: `cargo xtask test --stage node` sets it')
  const child = spawn(program, [server.url, namespace], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  t.after(() => child.kill())
  return async (line) => {
    child.stdin.write(`${line}\n`)
    return (await lines.next()).value
  }
}

/** Runs a program of Node, and returns what it prints, its exit code and its signal. */
function run (source, environment = {}, limit = 30_000) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['--expose-gc', '-e', source], { env: { ...process.env, ...environment }, stdio: ['ignore', 'pipe', 'pipe'], timeout: limit, cwd: __dirname })
    let printed = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { printed += data })
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ printed: printed.trim(), code, signal }))
  })
}

/** Waits until a check is true. */
async function eventually (what, check, limit = 10_000) {
  const end = Date.now() + limit
  while (!(await check())) {
    if (Date.now() > end) throw new Error(`${what} does not happen`)
    await pause(10)
  }
}

module.exports = { eventually, pause, peer, redis, run }
