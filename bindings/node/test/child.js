// A node in JavaScript that a test in Rust calls by lines: bindings/interop/protocol.md describes them.
//
//     node child.js main      on the main thread
//     node child.js worker    on a worker thread
'use strict'

const { createInterface } = require('node:readline')
const { Worker, isMainThread, parentPort } = require('node:worker_threads')
const { Cache, KEEP, LoadFailed, LoadTimeout, REMOVE } = require('larder-cache')

/** The names of larder's options in JavaScript. */
const camel = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase())
const text = (word) => decodeURIComponent(word)
const written = (value) => encodeURIComponent(value).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`)
const yes = (truth) => truth ? 'yes' : 'no'

/** A value of a word. */
function valueOf (word) {
  if (word === 'n') return null
  if (word.startsWith('v')) {
    const [version, write] = word.slice(1).split('.').map(Number)
    return { version, write }
  }
  return text(word.slice(1))
}

/** The word of a value. */
function wordOf (value) {
  if (value === undefined) return '-'
  if (value === null) return 'n'
  return typeof value === 'string' ? `t${written(value)}` : `v${value.version}.${value.write}`
}

/** The words before the options, and the options. */
function parts (words) {
  const options = {}
  const first = words.findIndex((word) => word.includes('='))
  for (const word of first < 0 ? [] : words.slice(first)) {
    const [name, value] = word.split('=')
    if (name === 'tag') (options.tags ??= []).push(text(value))
    else options[camel(name)] = value === 'yes' ? true : text(value)
  }
  return [first < 0 ? words : words.slice(0, first), options]
}

class Node {
  #say
  #cache
  #view
  #numbers
  /** Of each loader that runs: what ends it. */
  #loading = new Map()
  /** What ends the function of an update whose caller leaves. */
  #updating = new Map()
  /** Of each call under way: what cancels it. */
  #calls = new Map()

  constructor (say) {
    this.#say = say
  }

  async receive (line) {
    const [word, id, ...rest] = line.split(' ')
    if (word === 'loaded' || word === 'updated' || word === 'raise') return this.#loading.get(id)?.(word, rest)
    if (word === 'cancel') {
      // An update has no signal: its function ends it.
      this.#updating.get(id)?.(new Error('the caller has left'))
      return this.#calls.get(id)?.abort()
    }
    const [words, options] = parts(rest)
    const controller = new AbortController()
    this.#calls.set(id, controller)
    try {
      const answer = await this[word]({ id, words, options, signal: controller.signal })
      this.#say(['done', id, ...answer].join(' '))
    } catch (error) {
      this.#say(`failed ${id} ${this.#kind(error)}`)
    }
    this.#calls.delete(id)
  }

  #kind (error) {
    if (error instanceof LoadTimeout) return `timeout ${written(error.message)}`
    const own = error instanceof LoadFailed ? error.cause : error
    return own?.isOfTest === true ? `loader ${written(own.message)}` : `other ${written(`${error?.stack ?? error}`)}`
  }

  /** A loader: the test has it, and is told that it begins. */
  #loader (id, end) {
    return (keys, load) => new Promise((resolve, reject) => {
      this.#loading.set(id, (word, rest) => {
        this.#loading.delete(id)
        if (word === 'raise') return reject(Object.assign(new Error(text(rest[0])), { isOfTest: true }))
        const [words, { ttl, tags = [], noStore, keep }] = parts(rest)
        try {
          if (ttl !== undefined) load.ttl(ttl)
          for (const tag of tags) load.tag(tag)
          if (noStore) load.noStore()
        } catch (error) {
          // Its caller has left meanwhile.
          return reject(error)
        }
        resolve(keep ? KEEP : end(words))
      })
      this.#say(['loading', id, ...keys.map(written)].join(' '))
    })
  }

  /** The function of an update: the test has it, and is told what it gets. */
  #function (id) {
    return (value) => new Promise((resolve, reject) => {
      this.#updating.set(id, reject)
      this.#loading.set(id, (word, rest) => {
        this.#loading.delete(id)
        this.#updating.delete(id)
        if (word === 'raise') return reject(Object.assign(new Error(text(rest[0])), { isOfTest: true }))
        const [[made], { keep }] = parts(rest)
        resolve(keep ? KEEP : made === '-' ? REMOVE : valueOf(made))
      })
      this.#say(`updating ${id} ${wordOf(value)}`)
    })
  }

  async open ({ words: [url, namespace], options }) {
    await this.#cache?.close(0)
    const known = Object.fromEntries(Object.entries(options).filter(([name]) => name !== 'tags'))
    this.#cache = new Cache(text(namespace), { redis: url === '-' ? undefined : text(url), ...known })
    this.#view = this.#cache.view('v')
    this.#numbers = this.#cache.view('n')
    return []
  }

  async hit ({ words: [key] }) {
    return [wordOf(this.#view.hit(text(key)))]
  }

  async read ({ words: [key] }) {
    return [wordOf(await this.#view.get(text(key)))]
  }

  async read_many ({ words }) {
    const keys = words.map(text)
    const found = await this.#view.getMany(keys)
    return keys.map((key) => wordOf(found.get(key)))
  }

  async exist ({ words: [key] }) {
    return [yes(await this.#view.ttl(text(key)) !== undefined)]
  }

  async fetch ({ id, words: [key], options, signal }) {
    const loader = this.#loader(id, ([value]) => valueOf(value))
    return [wordOf(await this.#view.fetch(text(key), (load) => loader([text(key)], load), { ...options, signal }))]
  }

  async fetch_many ({ id, words, options, signal }) {
    const keys = words.map(text)
    const loader = this.#loader(id, (words) => {
      const pairs = []
      for (let at = 0; at < words.length; at += 2) pairs.push([text(words[at]), valueOf(words[at + 1])])
      return pairs
    })
    const found = await this.#view.fetchMany(keys, loader, { ...options, signal })
    return keys.map((key) => wordOf(found.get(key)))
  }

  async update ({ id, words: [key], options }) {
    return [wordOf(await this.#view.update(text(key), this.#function(id), options))]
  }

  async write ({ words: [key, value], options }) {
    return [yes(await this.#view.set(text(key), valueOf(value), options))]
  }

  async write_many ({ words, options }) {
    const pairs = []
    for (let at = 0; at < words.length; at += 2) pairs.push([text(words[at]), valueOf(words[at + 1])])
    return [yes(await this.#view.setMany(pairs, options))]
  }

  async add ({ words: [key, value], options }) {
    return [yes(await this.#view.add(text(key), valueOf(value), options))]
  }

  async delete ({ words: [key] }) {
    const before = this.#cache.coherence().pendingInvalidations
    const existed = await this.#view.delete(text(key))
    // What is pending says of no key whether all nodes know it: where there is something, it may be this one.
    const { pendingInvalidations } = this.#cache.coherence()
    return [yes(existed), yes(before === 0 && pendingInvalidations === 0)]
  }

  async delete_many ({ words }) {
    return [await this.#view.deleteMany(words.map(text))]
  }

  async take ({ words: [key] }) {
    return [wordOf(await this.#view.take(text(key)))]
  }

  async expire ({ words: [key] }) {
    return [yes(await this.#view.expire(text(key)))]
  }

  async touch ({ words: [key], options }) {
    return [yes(await this.#view.touch(text(key), options))]
  }

  async increment ({ words: [key, by] }) {
    const number = BigInt(by)
    return [await this.#numbers.increment(text(key), number, { initial: number })]
  }

  async tags ({ words, options: { soft = false } }) {
    return [yes(await this.#cache.invalidateTags(words.map(text), { soft }))]
  }

  async clear () {
    return [yes(await this.#cache.clear())]
  }

  async delete_matched ({ words: [pattern] }) {
    await this.#cache.deleteMatched(text(pattern))
    return [yes(this.#cache.coherence().pendingInvalidations === 0)]
  }

  async state () {
    const { mode, memoryTrusted, pendingInvalidations } = this.#cache.coherence()
    return [written(mode), yes(memoryTrusted), pendingInvalidations]
  }
}

if (isMainThread) {
  const say = (line) => process.stdout.write(`${line}\n`)
  const lines = createInterface({ input: process.stdin })
  if (process.argv[2] === 'worker') {
    const worker = new Worker(__filename)
    worker.on('message', say)
    lines.on('line', (line) => worker.postMessage(line))
  } else {
    const node = new Node(say)
    say('ready')
    lines.on('line', (line) => node.receive(line))
  }
  // Calls that never end keep no child alive.
  lines.on('close', () => process.exit(0))
} else {
  const node = new Node((line) => parentPort.postMessage(line))
  parentPort.on('message', (line) => node.receive(line))
  parentPort.postMessage('ready')
}
