// Changes the price in each shop by turns, and fails if another one shows the old price after the time that a change may take.
//
//     node check.mjs http://localhost:3000
import { setTimeout as pause } from 'node:timers/promises'

const page = process.argv[2]
/** The milliseconds within which a change is seen: `max_lag`, the query and the answer. */
const SEEN = 2_000
const TURNS = 2

async function call (shop, options) {
  const response = await fetch(`${page}/shops/${shop}/products/apple`, { signal: AbortSignal.timeout(20_000), ...options })
  const body = await response.json()
  if (!response.ok) throw new Error(`${shop}: ${response.status} ${JSON.stringify(body)}`)
  return body
}

/** The milliseconds until a shop shows the price. */
async function seen (shop, price, changed) {
  while ((await call(shop)).price !== price) {
    if (performance.now() - changed > SEEN) throw new Error(`${shop} does not show ${price} after ${SEEN} ms`)
    await pause(10)
  }
  return performance.now() - changed
}

const shops = await (await fetch(`${page}/shops`)).json()
if (shops.length !== 5) throw new Error(`there are five shops, not ${shops}`)
let price = 200
for (let turn = 0; turn < TURNS; turn++) {
  for (const by of shops) {
    await Promise.all(shops.map((shop) => call(shop)))
    price += 1
    await call(by, { method: 'PUT', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ price }) })
    const changed = performance.now()
    const times = await Promise.all(shops.map((shop) => seen(shop, price, changed)))
    console.log(`${by}: ${price}, seen after ${shops.map((shop, at) => `${shop} ${times[at].toFixed(0)} ms`).join(', ')}`)
  }
}
