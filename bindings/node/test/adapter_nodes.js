// Processes with an adapter each, over one Redis. A test calls their functions.
'use strict'

const { fork } = require('node:child_process')
const { randomUUID } = require('node:crypto')
const { join } = require('node:path')

class Node {
  #process
  #calls = new Map()
  #number = 0

  constructor (adapter, { url, namespace }) {
    const env = { ...process.env, REDIS: url, NAMESPACE: namespace }
    this.#process = fork(join(__dirname, 'adapter_child.js'), [adapter], { env, serialization: 'advanced' })
    this.#process.on('message', ({ number, result, error }) => {
      const { resolve, reject } = this.#calls.get(number)
      this.#calls.delete(number)
      if (error === undefined) resolve(result)
      else reject(new Error(error))
    })
    this.#process.on('exit', (code) => {
      for (const { reject } of this.#calls.values()) reject(new Error(`the process has ended with ${code}`))
    })
  }

  call (name, ...given) {
    const number = this.#number++
    return new Promise((resolve, reject) => {
      this.#calls.set(number, { resolve, reject })
      this.#process.send({ number, name, given })
    })
  }

  async close () {
    if (!this.#process.connected) return
    const ended = new Promise((resolve) => this.#process.once('exit', resolve))
    this.#process.disconnect()
    await ended
  }
}

/** Two processes with one namespace, which end with the test. */
function startNodes (t, adapter, { url }) {
  const shared = { url, namespace: `nodes-${randomUUID()}` }
  const nodes = [new Node(adapter, shared), new Node(adapter, shared)]
  t.after(() => Promise.all(nodes.map((node) => node.close())))
  return nodes
}

module.exports = { startNodes }
