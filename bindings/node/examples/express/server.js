// A product catalogue over Express: products are read through larder, and a change invalidates them in every process.
//
//   PORT         the port, 3000 by default
//   REDIS_URL    the Redis of all processes, such as redis://localhost:6379; without it there is only memory
//   ORIGIN_FILE  a JSON file that is the database of all processes; without it the database is in memory
'use strict'

const fs = require('node:fs')
const path = require('node:path')
const { setTimeout: pause } = require('node:timers/promises')
const express = require('express')
const client = require('prom-client')
const { Cache } = require('larder-cache')
const { collectFigures } = require('larder-cache/prometheus')

const { PORT = '3000', REDIS_URL, ORIGIN_FILE } = process.env
/** In cents. */
const MAX_PRICE = 1_000_000
/** The milliseconds of a query, so that one can see whether there was one. */
const QUERY = 300

// The database.

let inMemory = {
  apple: { name: 'Apple', price: 120 },
  pear: { name: 'Pear', price: 150 },
  plum: { name: 'Plum', price: 90 }
}
if (ORIGIN_FILE && !fs.existsSync(ORIGIN_FILE)) write(inMemory)

function read () {
  return ORIGIN_FILE ? JSON.parse(fs.readFileSync(ORIGIN_FILE, 'utf8')) : inMemory
}

function write (products) {
  inMemory = products
  if (!ORIGIN_FILE) return
  // Renamed, so that no process reads half of it.
  const draft = `${ORIGIN_FILE}.${process.pid}`
  fs.writeFileSync(draft, JSON.stringify(products, null, 2))
  fs.renameSync(draft, ORIGIN_FILE)
}

function find (id) {
  const products = read()
  return Object.hasOwn(products, id) ? { id, ...products[id] } : null
}

async function query (id) {
  const product = find(id)
  await pause(QUERY)
  return product
}

// The cache.

const cache = new Cache('shop', { ttl: '5m', grace: '1h', redis: REDIS_URL })
// Programs in other languages have the same view: namespace, name and schema are all that they must agree on.
const products = cache.view('product', { schema: ['product', 1] })

client.collectDefaultMetrics()
collectFigures(client, cache)

// The service.

const app = express()
app.get('/', (request, response) => response.sendFile(path.join(__dirname, 'index.html')))

app.get('/products/:id', async (request, response) => {
  const { id } = request.params
  let outcome = 'hit'
  const product = await products.fetch(id, async (load) => {
    outcome = 'fwd=miss'
    const found = await query(id)
    // Nothing is kept of a name that somebody has made up.
    if (found === null) load.noStore()
    else load.tag(`product-${id}`)
    return found
  })
  if (product === null) return refuse(response, 404, `there is no product ${shown(id)}`)
  response.set({ 'Cache-Control': 'no-store', 'Cache-Status': `Express; ${outcome}` }).json(product)
})

app.put('/products/:id', express.json(), async (request, response) => {
  const { id } = request.params
  const price = request.body?.price ?? null
  if (!Number.isInteger(price) || price < 0 || price > MAX_PRICE) {
    return refuse(response, 400, `price is ${shown(price)}; it must be a whole number of cents from 0 to ${MAX_PRICE}`)
  }
  const product = find(id)
  if (product === null) return refuse(response, 404, `there is no product ${shown(id)}`)
  write({ ...read(), [id]: { name: product.name, price } })
  // After the change: what is loaded from now on is the new product. A load that has begun before is not stored.
  await cache.invalidateTags([`product-${id}`])
  response.json({ ...product, price })
})

app.get('/metrics', async (request, response) => {
  response.type(client.register.contentType).send(await client.register.metrics())
})

app.use((error, request, response, next) => {
  if (error.status === undefined) console.error(error)
  refuse(response, error.status ?? 500, error.status === undefined ? 'something went wrong' : error.message)
})

function refuse (response, status, error) {
  response.status(status).json({ error })
}

function shown (value) {
  return JSON.stringify(value).slice(0, 40)
}

const server = app.listen(Number(PORT), 'localhost', (error) => {
  if (error) throw error
  console.log(`http://localhost:${server.address().port}`)
})
// What Redis has not confirmed gets two seconds.
process.once('SIGTERM', () => server.close(() => cache.close()))
