// A real redis-server for a test, on a Unix socket in a folder of its own: no port is needed.
'use strict'

const { spawn } = require('node:child_process')
const { mkdtempSync, rmSync } = require('node:fs')
const { connect } = require('node:net')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const { setTimeout: pause } = require('node:timers/promises')

const LONGEST_START = 10_000

class Redis {
  #folder = mkdtempSync(join(tmpdir(), 'larder-redis-'))
  #socket = join(this.#folder, 'socket')
  #server

  /** The address, as an option of a cache. */
  get url () {
    return `redis+unix://${this.#socket}`
  }

  async start () {
    const config = { port: 0, unixsocket: this.#socket, dir: this.#folder, save: '', appendonly: 'no' }
    const options = Object.entries(config).flatMap(([name, value]) => [`--${name}`, String(value)])
    const server = spawn('redis-server', options, { stdio: 'ignore' })
    let failure
    server.once('error', (error) => { failure = error })
    server.once('exit', (code) => { failure ??= new Error(`redis-server has ended with ${code}`) })
    this.#server = server
    const end = Date.now() + LONGEST_START
    while (!(await this.#answers())) {
      if (failure !== undefined) throw failure
      if (Date.now() > end) throw new Error('redis-server does not answer')
      await pause(10)
    }
    return this
  }

  /** Ends the server with what it has. It can be started again. */
  async stop () {
    const server = this.#server
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return
    const ended = new Promise((resolve) => server.once('exit', resolve))
    server.kill('SIGKILL')
    await ended
  }

  async close () {
    await this.stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  /** The reply to one command, as Redis writes it: `+OK`, `:1`, `$3`, … */
  command (...words) {
    return new Promise((resolve, reject) => {
      const parts = words.map((word) => Buffer.from(word))
      const socket = connect(this.#socket)
      let reply = ''
      socket.once('error', reject)
      socket.on('data', (data) => { reply += data })
      socket.once('close', () => resolve(reply))
      socket.write(`*${parts.length}\r\n`)
      for (const part of parts) {
        socket.write(`$${part.length}\r\n`)
        socket.write(part)
        socket.write('\r\n')
      }
      // Redis closes the connection after this one.
      socket.write('*1\r\n$4\r\nQUIT\r\n')
    })
  }

  async #answers () {
    try {
      return (await this.command('PING')).startsWith('+PONG')
    } catch {
      return false
    }
  }
}

/** A server that has answered. Its `close` ends it. */
function startRedis () {
  return new Redis().start()
}

module.exports = { startRedis }
