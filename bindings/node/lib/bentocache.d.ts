// The types of larder-cache/bentocache. They name none of BentoCache's own, so this package does not need it.

import type { Cache, View } from './index.js'

export interface LarderDriverOptions {
  cache: Cache
  /** The second part of the keys in Redis. The default is `bentocache`. */
  view?: string
  /** What each key begins with, before a `:`. The default is that of BentoCache, `bentocache`. */
  prefix?: string
}

/** A driver of BentoCache for its layer L2. */
export class LarderDriver {
  constructor (options: LarderDriverOptions)

  type: 'l2'
  /** What BentoCache stores, by `prefix:key`. */
  readonly view: View<any, string>

  namespace (namespace: string): LarderDriver
  get (key: string): Promise<any>
  pull (key: string): Promise<any>
  /** Returns whether all processes know. Otherwise this one has the value, and the others are told when Redis is back. */
  set (key: string, value: any, ttl?: number): Promise<boolean>
  delete (key: string): Promise<boolean>
  deleteMany (keys: string[]): Promise<boolean>
  clear (): Promise<void>
  /** Waits until all invalidations are confirmed, for two seconds at most. The cache stays open. */
  disconnect (): Promise<void>
}

/** The driver as `useL2Layer` takes it. */
export function larderDriver (options: LarderDriverOptions): {
  options: LarderDriverOptions
  factory: (config: any) => LarderDriver
}

/** An option of BentoCache: larder gets values as they are, and writes them as MessagePack. Without it they are JSON. */
export const serializer: {
  serialize (value: any): any
  deserialize (value: any): any
}
