// The types of larder-cache/cache-manager.

/** Those of `createCache` that `wrap` uses. */
export interface SingleFlightOptions {
  /** Milliseconds. */
  ttl?: number
  /** Milliseconds: a value that ends sooner is loaded again, while callers get it. */
  refreshThreshold?: number
}

/**
 * The same cache with a `wrap` that calls its function once for all processes. The cache must have one store, which is
 * `new Keyv(keyvOptions(…))`.
 */
export function singleFlight<C extends { stores: any[]; wrap: (...given: any[]) => any }> (cache: C, options?: SingleFlightOptions): C
