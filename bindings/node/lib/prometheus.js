// The figures of caches in a registry of prom-client, with the names that larder's own page of metrics has.
'use strict'

const { Cache } = require('./cache.js')
const { CacheClosed, OptionError } = require('./errors.js')

/** The outcomes of lookups, and the members of the figures of a tier that count them. */
const OUTCOMES = [['hit', 'hits'], ['miss', 'misses'], ['unreadable', 'unreadable'], ['error', 'errors']]

/** Each family: the class of prom-client, what it gets, and the samples of one cache, which are labels and a value. */
const FAMILIES = [
  {
    kind: 'Counter',
    name: 'larder_tier_lookups_total',
    help: 'Lookups by outcome.',
    labelNames: ['part', 'tier', 'outcome'],
    samples: ({ tiers }) => tiers.flatMap(([tier, figures]) => OUTCOMES.map(([outcome, member]) => [{ tier, outcome }, figures[member]]))
  },
  {
    kind: 'Counter',
    name: 'larder_tier_operations_total',
    help: 'Operations by name.',
    labelNames: ['part', 'tier', 'operation'],
    samples: ({ stats }) => [
      [{ tier: 'origin', operation: 'load' }, stats.loads],
      [{ tier: 'origin', operation: 'failure' }, stats.loadFailures]
    ]
  },
  ofTiers('larder_tier_entries', 'entries', 'Entries in the tier.'),
  ofTiers('larder_tier_bytes', 'bytes', 'Bytes in the tier.'),
  ofTiers('larder_tier_capacity_bytes', 'capacity', 'Maximum number of bytes in the tier.'),
  total('larder_coalesced_total', 'coalesced', 'Fetches that waited for the load of another caller.'),
  total('larder_refused_loads_total', 'refused', 'Loads whose result was not stored because of an invalidation.'),
  total('larder_stale_answers_total', 'stale', 'Stale values served because a load failed or was slow.'),
  {
    kind: 'Gauge',
    name: 'larder_coherent',
    help: '1 if this process has what others invalidated, or has not needed Redis yet; 0 if it may miss some.',
    labelNames: ['part'],
    // Of the workers of a cluster, one that may miss some is enough.
    aggregator: 'min',
    samples: ({ coherence: { mode, problem } }) => {
      const isCoherent = mode === 'full' || (mode === 'unknown' && problem === null)
      return mode === 'memory' ? [] : [[{}, isCoherent ? 1 : 0]]
    }
  },
  {
    kind: 'Gauge',
    name: 'larder_pending_invalidations',
    help: 'Invalidations that are done in this process and not yet confirmed by Redis.',
    labelNames: ['part'],
    samples: ({ coherence: { mode, pendingInvalidations } }) => mode === 'memory' ? [] : [[{}, pendingInvalidations]]
  }
]

/** A gauge of each tier that has the figure: Redis has none of them. */
function ofTiers (name, member, help) {
  const samples = ({ tiers }) => tiers.filter(([, figures]) => figures[member] !== null).map(([tier, figures]) => [{ tier }, figures[member]])
  return { kind: 'Gauge', name, help, labelNames: ['part', 'tier'], samples }
}

/** A total of a cache. */
function total (name, member, help) {
  return { kind: 'Counter', name, help, labelNames: ['part'], samples: ({ stats }) => [[{}, stats[member]]] }
}

function collectFigures (client, ...caches) {
  if (typeof client?.Counter !== 'function' || typeof client.Gauge !== 'function' || typeof client.register?.registerMetric !== 'function') {
    throw new OptionError('the first argument must be prom-client, or { ...client, register } with a registry of your own')
  }
  if (caches.length === 0) throw new OptionError('there is no cache to collect the figures of')
  for (const cache of caches) {
    if (!(cache instanceof Cache)) throw new OptionError(`cache is of type ${typeof cache}; it must be a Cache of larder-cache`)
  }
  const read = reader(caches)
  FAMILIES.forEach(({ kind, samples, ...family }) => new client[kind]({
    ...family,
    registers: [client.register],
    collect () {
      // The figures are totals already. After a reset, what is added is the value: of a counter and of a gauge.
      this.reset()
      for (const figures of read()) {
        for (const [labels, value] of samples(figures)) this.inc({ part: figures.part, ...labels }, value)
      }
    }
  }))
}

/** Reads the figures once for all families: prom-client collects those of one answer without a pause between them. */
function reader (caches) {
  let read
  return () => {
    if (read === undefined) {
      read = caches.flatMap(figuresOf)
      queueMicrotask(() => { read = undefined })
    }
    return read
  }
}

/** The figures of a cache. One that is closed has none, and does not keep the others from being answered. */
function figuresOf (cache) {
  try {
    const stats = cache.stats()
    const tiers = ['memory', 'redis'].filter((tier) => stats[tier] !== null).map((tier) => [tier, stats[tier]])
    return [{ part: cache.namespace, stats, tiers, coherence: cache.coherence() }]
  } catch (error) {
    if (error instanceof CacheClosed) return []
    throw error
  }
}

module.exports = { collectFigures }
