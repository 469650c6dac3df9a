// The types of larder-cache/keyv. They name none of Keyv's own, so they are those of Keyv 5 and of Keyv 6.

import { EventEmitter } from 'node:events'
import type { Cache, View } from './index.js'

export interface KeyvLarderOptions {
  /** The second part of the keys in Redis. The default is `keyv`. */
  view?: string
}

/** An entry of `setMany`. */
export interface KeyvLarderEntry {
  key: string
  value: any
  /** Milliseconds. */
  ttl?: number
}

/** A storage adapter of Keyv. Each Keyv needs one of its own, since Keyv writes its namespace there. */
export class KeyvLarder extends EventEmitter {
  constructor (cache: Cache, options?: KeyvLarderOptions)

  opts: any
  /** What Keyv stores: the value as `value`, and the time of its end as `expires`. Its keys are those of `keyOf`. */
  readonly view: View<any, [string, string]>
  /** The tag of all values of the namespace. */
  readonly tag: string
  get namespace (): string | undefined
  set namespace (namespace: string | undefined)

  keyOf (key: string): [string, string]
  get<T> (key: string): Promise<T | undefined>
  getMany<T> (keys: string[]): Promise<Array<T | undefined>>
  has (key: string): Promise<boolean>
  hasMany (keys: string[]): Promise<boolean[]>
  /** Returns whether all processes know. Otherwise this one has the value, and the others are told when Redis is back. */
  set (key: string, value: any, ttl?: number): Promise<boolean>
  setMany (entries: KeyvLarderEntry[]): Promise<any>
  delete (key: string): Promise<boolean>
  /** Returns whether there was a value of any of the keys. */
  deleteMany (keys: string[]): Promise<boolean>
  clear (): Promise<void>
  /** Waits until all invalidations are confirmed, for two seconds at most. The cache stays open. */
  disconnect (): Promise<void>
}

/** The options of `new Keyv(…)`, with a new store in them. All that are given but `view` are options of Keyv itself. */
export function keyvOptions<O extends object = {}> (
  cache: Cache,
  options?: KeyvLarderOptions & O
): Omit<O, 'view'> & {
  store: KeyvLarder
  useKeyPrefix: false
  serialize: undefined
  deserialize: undefined
  throwOnErrors: boolean
  serialization: false
}
