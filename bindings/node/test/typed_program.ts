// A program that uses the types of the package. The compiler checks it; nobody runs it.
import { Cache, KEEP, LoadFailed, REMOVE, View, type Load } from 'larder-cache'

interface Price { amount: number, currency: string }

const cache = new Cache('shop', { ttl: '5m', redis: 'redis://localhost', memoryBytes: '64MiB', fallback: true })
const prices: View<Price, string> = cache.view<Price, string>('price', { schema: ['price', 2], shared: true, tags: ['prices'] })

async function use (): Promise<void> {
  const hit: Price | undefined = prices.hit('apple')
  const got: Price | undefined = await prices.get('apple')
  const fetched: Price = await prices.fetch('apple', async (load: Load<Price>) => {
    load.ttl('1m')
    return load.stale === undefined ? { amount: 3, currency: 'EUR' } : KEEP
  }, { tags: ['fruit'], signal: AbortSignal.timeout(100) })
  const ahead: Price = await prices.fetch('apple', () => fetched, { refreshAhead: 'by_cost:2' })
  const updated: Price | undefined = await prices.update('apple', (found) => found === undefined ? KEEP : found.amount > 9 ? REMOVE : ahead)
  // @ts-expect-error: no option of a write
  await prices.set('apple', fetched, { refreshAhead: 0.8 })
  const many: Map<string, Price> = await prices.fetchMany(['a'], (keys) => keys.map((key) => [key, fetched] as const))
  const price = cache.wrap('price', async (product: string, amount: number = 1) => ({ product, amount }), { tags: (product) => [product] })
  const wrapped: { product: string, amount: number } = await price('apple', 2)
  await price.delete('apple')
  // @ts-expect-error: another type of value
  await prices.set('apple', { amount: '3' })
  // @ts-expect-error: another type of key
  await prices.get(17)
  // @ts-expect-error: no option of a call
  await prices.fetch('apple', () => fetched, { tll: 1 })
  // @ts-expect-error: another type of argument
  await price(17)
  // @ts-expect-error: views are made by caches
  void new View()
  void [hit, got, updated, many, wrapped, cache.stats().memory.hits, cache.coherence().mode]
}

use().catch((error: unknown) => { if (error instanceof LoadFailed) console.error(error.cause) })
