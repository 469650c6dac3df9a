// What TypeScript must accept of the adapters. It is compiled, not run.
import { BentoCache, bentostore } from 'bentocache'
import type { L2CacheDriver } from 'bentocache/types'
import { type Cache as Manager, createCache } from 'cache-manager'
import { Keyv, type KeyvStoreAdapter } from 'keyv'
import { Keyv as Keyv6 } from 'keyv-6'
import { Cache } from 'larder-cache'
import { LarderDriver, larderDriver, serializer } from 'larder-cache/bentocache'
import { singleFlight } from 'larder-cache/cache-manager'
import { KeyvLarder, keyvOptions } from 'larder-cache/keyv'

const larder = new Cache('shop', { ttl: '5m' })

export const store: KeyvStoreAdapter = new KeyvLarder(larder, { view: 'keyv' })
export const users = new Keyv<{ name: string }>(keyvOptions(larder, { namespace: 'users', ttl: 60_000 }))
export const user: Promise<{ name: string } | undefined> = users.get('1')
export const users6 = new Keyv6(keyvOptions(larder, { namespace: 'users' }))

export const manager: Manager = singleFlight(createCache({ stores: [new Keyv(keyvOptions(larder))] }), { ttl: 60_000 })
export const price: Promise<number> = manager.wrap('apple', () => 3, { ttl: (value) => value * 1000, refreshThreshold: 500 })

export const driver: L2CacheDriver = new LarderDriver({ cache: larder, prefix: 'shop' })
export const bento = new BentoCache({
  default: 'shop',
  stores: { shop: bentostore().useL2Layer(larderDriver({ cache: larder })) },
  serializer
})

// @ts-expect-error: a view is a name
keyvOptions(larder, { view: 3 })
// @ts-expect-error: the cache is missing
new LarderDriver({ prefix: 'shop' })
