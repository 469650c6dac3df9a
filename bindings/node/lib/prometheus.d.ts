// The types of larder-cache/prometheus. They name none of prom-client's own, so this package does not need it.

import type { Cache } from './index.js'

/** What is needed of prom-client: the module itself, or `{ ...client, register }` with a registry of your own. */
export interface PrometheusClient {
  Counter: new (configuration: any) => unknown
  Gauge: new (configuration: any) => unknown
  register: object
}

/**
 * Puts the families of larder into the registry. Its answers have the figures of their moment; the label `part` is the namespace of
 * each cache. A registry has each family once: give all caches in one call.
 */
export function collectFigures (client: PrometheusClient, ...caches: [Cache, ...Cache[]]): void
