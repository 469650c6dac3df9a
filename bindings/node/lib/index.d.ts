// The types of the package larder-cache.

/** Milliseconds, or text with a unit: `"250ms"`, `"30s"`, `"5m"`. */
export type Time = number | string

/** Text, bytes, a whole number, a boolean, or an array of them that is not empty: `["eu", 17]` is `eu:17`. */
export type Key = string | Uint8Array | number | bigint | boolean | readonly [Key, ...Key[]]

/**
 * What a view can keep: `null`, booleans, numbers, bigints of 64 bits, text, bytes, dates, arrays, and plain objects. A property that
 * is `undefined` is left out.
 */
export type Storable =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Date
  | readonly Storable[]
  | { readonly [name: string]: Storable | undefined }

/** The options of larder by their names in camel case. Those with a type of their own here are the most used ones. */
export interface CacheOptions {
  /** The address of Redis: `redis://`, `rediss://`, `redis+sentinel://` or `redis+cluster://`. Without it there is only memory. */
  redis?: string
  /** How long values are fresh. */
  ttl?: Time
  /** For how long after its TTL a value may be served where its loader fails. */
  grace?: Time
  /** The bound of memory: a number of bytes, or text with a unit such as `"64MiB"`. */
  memoryBytes?: number | string
  /** How late at most another node hears of an invalidation. */
  maxLag?: Time
  /** How long a node that has lost Redis answers from memory. */
  disconnected?: Time
  [name: string]: string | number | boolean | undefined
}

/** Options of values: of a view, or of one call. */
export interface Policy {
  ttl?: Time
  /** The TTL of `null`. */
  negativeTtl?: Time
  grace?: Time
  /** How long nobody loads again after a failure that a stale value has covered. */
  retryAfter?: Time
  /** How long a caller waits for a load before it gets the stale value. */
  softTimeout?: Time
  /** How long a load may last. */
  hardTimeout?: Time
  /** The share of the TTL, from 0 to 1, by which it may be shorter. */
  jitter?: number
  tags?: readonly string[]
}

/** What views and fetches have beside that. */
export interface Ahead {
  /**
   * When a fetch loads a value again that is still fresh, in the background: after this part of its TTL, from 0 to 1, or `"by_cost"`, by
   * a chance that is the greater the longer its last load took (`"by_cost:2"`: twice as early). `"never"` is the default.
   */
  refreshAhead?: number | 'by_cost' | `by_cost:${number}` | 'never'
}

export interface ViewOptions extends Policy, Ahead {
  /** A name and a number: raise the number when the shape of the values changes. The default is the name of the view and 1. */
  schema?: readonly [name: string, number: number]
  /**
   * How Redis has the values: `"messagepack"`, the default, or `"json"`, which other programs read as text, and which has no bytes, dates
   * or numbers that are not finite. Views of both read each other's values.
   */
  codec?: 'messagepack' | 'json'
  /** All hits of a thread return one frozen object. Otherwise each one gets its own. */
  shared?: boolean
}

export interface FetchOptions extends Policy, Ahead {
  /** Loads although there is a value. */
  refresh?: boolean
  /** Ends the wait of this caller. If it was loading, the next caller loads. */
  signal?: AbortSignal
}

/** What a loader gets. */
export interface Load<V> {
  /** The stale value, if there is one. */
  readonly stale: V | undefined
  /** That of the caller who loads. */
  readonly signal: AbortSignal | undefined
  ttl (time: Time): void
  grace (time: Time): void
  /** What invalidates this tag invalidates the value. */
  tag (tag: string): void
  /** The callers get the value, and no tier keeps it. */
  noStore (): void
}

export type BulkLoad = Pick<Load<never>, 'signal' | 'ttl' | 'tag' | 'noStore'>

/** What a loader returns that has found the stale value unchanged, and the function of an update that leaves the value as it is. */
export const KEEP: unique symbol

/** What the function of an update returns to remove the value. */
export const REMOVE: unique symbol

export type Loader<V> = (load: Load<V>) => V | typeof KEEP | Promise<V | typeof KEEP>

/** Values by their keys. */
export type Values<K, V> = Iterable<readonly [K, V]> | { readonly [name: string]: V }

/** Values of one kind. Made by `Cache.view`. */
export class View<V = Storable, K extends Key = Key> {
  private constructor ()

  readonly cache: Cache
  readonly name: string

  /** The value in memory: never waits. */
  hit: (key: K) => V | undefined
  /** The value, or `undefined`. */
  get (key: K): Promise<V | undefined>
  /** The values that are there, by the keys as they were passed. One round trip for those that memory does not have. */
  getMany (keys: Iterable<K>): Promise<Map<K, V>>
  /**
   * The value, which `loader` makes if there is none. Of many callers one loads, in all processes. With `refreshAhead` it may also run in
   * the background, after the caller has got a value that is still fresh: what it throws then is a warning of the log.
   */
  fetch (key: K, loader: Loader<V>, options?: FetchOptions): Promise<V>
  /** The values by their keys. `loader` gets the keys that are nowhere; it may be called again for others. */
  fetchMany (
    keys: Iterable<K>,
    loader: (keys: K[], load: BulkLoad) => Values<K, V> | Promise<Values<K, V>>,
    options?: Omit<FetchOptions, 'refresh'>
  ): Promise<Map<K, V>>

  /** Stores a value in both tiers, and invalidates the one that other nodes have. Returns whether all nodes know. */
  set (key: K, value: V, options?: Policy): Promise<boolean>
  setMany (values: Values<K, V>, options?: Policy): Promise<boolean>
  /** Stores a value if there is none. Returns whether it did. */
  add (key: K, value: V, options?: Policy): Promise<boolean>
  /** Adds to a whole number in one step. Without a value it stores `initial`, or returns `undefined` if there is none. */
  increment (key: K, by?: number | bigint, options?: Policy & { initial?: number | bigint }): Promise<number | bigint | undefined>
  /**
   * Replaces or removes a value by what a function makes of it, in one step: of concurrent updates in all processes none is lost. Returns
   * the value that is there then. The function is called again if another writer comes first: it must be short, have no effects of its
   * own, and not update that key. A value keeps the times and tags of the one that it replaces, or has those of `options`, if there are any.
   */
  update (
    key: K,
    make: (value: V | undefined) => V | typeof KEEP | typeof REMOVE | Promise<V | typeof KEEP | typeof REMOVE>,
    options?: Policy
  ): Promise<V | undefined>
  /** Gives a value another time to live. Returns whether there was one. */
  touch (key: K, options?: Policy): Promise<boolean>
  /** The milliseconds for which a value is fresh. */
  ttl (key: K): Promise<number | undefined>
  /** Removes a value and returns it: of several callers one gets it. */
  take (key: K): Promise<V | undefined>
  /** Removes a value on every node. Returns whether there was one. */
  delete (key: K): Promise<boolean>
  /** Returns how many there were. */
  deleteMany (keys: Iterable<K>): Promise<number>
  /** Makes a value stale on every node: it stays for its grace period. Returns whether there was one. */
  expire (key: K): Promise<boolean>
}

export interface WrapOptions<A extends unknown[]> extends Omit<Policy, 'tags'>, Ahead {
  /** A key of the arguments. Without it they are text, bytes, numbers, bigints, booleans, `null`, `undefined`, or arrays of them. */
  key?: (...given: A) => Key
  tags?: readonly string[] | ((...given: A) => readonly string[])
  /** Raise its number when the shape of the results changes. The default is `["cached", 1]`. */
  schema?: readonly [name: string, number: number]
}

export interface Wrapped<A extends unknown[], V> {
  (...given: A): Promise<V>
  key: (...given: A) => Key
  /** Removes the result for these arguments, on every node. */
  delete (...given: A): Promise<boolean>
  view: View<V>
}

export interface TierStats {
  hits: number
  misses: number
  errors: number
  unreadable: number
  evicted: number
  expired: number
  entries: number | null
  bytes: number | null
  capacity: number | null
}

export interface Stats {
  memory: TierStats
  redis: TierStats | null
  loads: number
  loadFailures: number
  coalesced: number
  refused: number
  stale: number
}

export interface Coherence {
  /** `full` while other nodes are heard, `lost` while they are not, `memory` without Redis. */
  mode: 'memory' | 'full' | 'lost' | 'unsupported' | 'shut down' | 'unknown'
  memoryTrusted: boolean
  /** Milliseconds. */
  proofAge: number
  /** Milliseconds. */
  disconnected: number
  pendingInvalidations: number
  /** Why Redis cannot be used now. */
  problem: string | null
}

/** A namespace with its tiers. Threads of a process that give the same options have the same cache. */
export class Cache {
  constructor (namespace: string, options?: CacheOptions)

  readonly namespace: string

  /** Values of one kind. Views of the same name and schema share their entries, in every program and language. */
  view<V = Storable, K extends Key = Key> (name: string, options?: ViewOptions): View<V, K>
  /** A function with the same arguments, whose results are in the view of that name. */
  wrap<F extends (...given: any[]) => unknown> (
    name: string,
    load: F,
    options?: WrapOptions<Parameters<F>>
  ): Wrapped<Parameters<F>, Awaited<ReturnType<F>>>

  /**
   * Invalidates all entries with one of these tags, on every node. Soft, they stay for their grace period. Returns whether all nodes
   * know: otherwise it holds in this process, is queued, and is replayed.
   */
  invalidateTags (tags: readonly string[], options?: { soft?: boolean }): Promise<boolean>
  /** Invalidates all entries of the namespace, on every node. */
  clear (): Promise<boolean>
  /** Deletes the keys whose `view:key` matches a pattern of Redis. Returns how many there were. It walks over all keys of Redis. */
  deleteMatched (pattern: string): Promise<number>
  /** Waits until Redis has confirmed every invalidation of this process. Returns how many are pending still. */
  drain (limit?: Time): Promise<number>
  /**
   * Waits as `drain` does, and ends the cache when no other thread has it. Later calls are a `CacheClosed`, but for another `close`,
   * which does nothing. Returns how many invalidations are lost.
   */
  close (limit?: Time): Promise<number>
  /** Turns the cache off or on: off, every fetch loads. */
  setEnabled (enabled: boolean): void
  coherence (): Coherence
  stats (): Stats
}

/**
 * Takes the log of larder in this thread: what does not work while the cache goes on. Without a listener warnings and errors are those of
 * the process, of the type `LarderWarning`.
 */
export function onLog (listener: ((level: 'info' | 'warn' | 'error', message: string) => void) | undefined): void

/** The base of all errors of the package. A failure of Redis is never the reason why a fetch fails: the cache then loads. */
export class LarderError extends Error {}
/** An option is unknown, or its value is none of the valid ones, which the message names. */
export class OptionError extends LarderError {}
/** A key is of a type that no key has. */
export class KeyTypeError extends LarderError {}
/** A value cannot be written. It is stored nowhere. */
export class EncodeError extends LarderError {}
/** The loader of another caller failed. Its error is the `cause`, where that caller was in the same thread. */
export class LoadFailed extends LarderError {}
/** The load exceeded its `hardTimeout`, and there was no stale value. */
export class LoadTimeout extends LarderError {}
/** A loader fetched its own key, or one whose loader waits for its own key: it would wait for itself. */
export class RecursiveLoad extends LarderError {}
/** Redis did not confirm, refused, or was not asked. Of an invalidation this is no error: it is queued. */
export class RedisError extends LarderError {}
/** Other nodes changed the key between a read and a write, again and again. Nothing was stored. */
export class Contended extends RedisError {}
/** The cache was closed. */
export class CacheClosed extends LarderError {}
