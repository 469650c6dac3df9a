// The figures in a registry of prom-client.
'use strict'

const assert = require('node:assert/strict')
const fs = require('node:fs')
const path = require('node:path')
const { test } = require('node:test')
const client = require('prom-client')
const { Cache, OptionError } = require('larder-cache')
const { collectFigures } = require('larder-cache/prometheus')
const { redis } = require('./support.js')

/** A registry of its own with the figures of caches: what it answers as samples by their names, and as text. */
function collected (...caches) {
  const register = new client.Registry()
  collectFigures({ ...client, register }, ...caches)
  return async () => {
    const text = await register.metrics()
    const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
    return { text, register, samples: new Map(lines.map((line) => line.match(/^(.*) (\S+)$/).slice(1)).map(([name, value]) => [name, Number(value)])) }
  }
}

test('a registry has the figures of tiers and coherence', async (t) => {
  const cache = new Cache('figures', { ttl: '5m', redis: (await redis(t)).url })
  t.after(() => cache.close())
  const answer = collected(cache)
  const view = cache.view('v')
  await view.fetch('k', () => 1)
  await view.fetch('k', () => 1)
  await assert.rejects(view.fetch('l', () => { throw new Error('away') }), /away/)
  const { samples } = await answer()
  const part = 'part="figures"'
  assert.equal(samples.get(`larder_tier_lookups_total{${part},tier="memory",outcome="hit"}`), 1)
  assert.equal(samples.get(`larder_tier_lookups_total{${part},tier="redis",outcome="miss"}`), 2)
  assert.equal(samples.get(`larder_tier_operations_total{${part},tier="origin",operation="load"}`), 1)
  assert.equal(samples.get(`larder_tier_operations_total{${part},tier="origin",operation="failure"}`), 1)
  assert.equal(samples.get(`larder_tier_entries{${part},tier="memory"}`), 1)
  assert.equal(samples.get(`larder_refused_loads_total{${part}}`), 0)
  assert.equal(samples.get(`larder_coherent{${part}}`), 1)
  assert.equal(samples.get(`larder_pending_invalidations{${part}}`), 0)
  view.hit('k')
  const { samples: later } = await answer()
  assert.equal(later.get(`larder_tier_lookups_total{${part},tier="memory",outcome="hit"}`), 2, 'a total, not a sum of answers')
  assert.equal(later.get(`larder_tier_entries{${part},tier="memory"}`), 1)
})

test('a cache in memory has its capacity, and nothing of Redis', async () => {
  const { samples, text } = await collected(new Cache('alone', { ttl: '5m', memoryBytes: '1MiB' }))()
  assert.equal(samples.get('larder_tier_capacity_bytes{part="alone",tier="memory"}'), 1 << 20)
  assert.ok(![...samples.keys()].some((name) => name.startsWith('larder_coherent') || name.includes('tier="redis"')), text)
})

test('several caches are parts, and a closed one is none', async () => {
  const caches = ['one', 'two'].map((namespace) => new Cache(namespace, { ttl: '5m' }))
  const answer = collected(...caches)
  const parts = async () => [...(await answer()).samples.keys()].filter((name) => name.startsWith('larder_coalesced'))
  assert.deepStrictEqual(await parts(), ['larder_coalesced_total{part="one"}', 'larder_coalesced_total{part="two"}'])
  await caches[0].close()
  assert.deepStrictEqual(await parts(), ['larder_coalesced_total{part="two"}'])
})

test('families, types and texts are those of Python and of Rust, in both formats', async () => {
  const { text, register } = await collected(new Cache('names', { ttl: '5m' }))()
  const sources = path.join(process.env.LARDER_ROOT, 'crates/larder-admin/src')
  const files = fs.readdirSync(sources, { recursive: true }).filter((file) => file.endsWith('.rs'))
  const rust = files.map((file) => fs.readFileSync(path.join(sources, file), 'utf8')).join('')
  const python = fs.readFileSync(path.join(process.env.LARDER_ROOT, 'bindings/python/python/larder_cache/prometheus.py'), 'utf8')
  const families = [...text.matchAll(/^# HELP (\w+) (.*)\n# TYPE \1 (\w+)$/gm)]
  assert.equal(families.length, 10)
  for (const [, name, help, type] of families) {
    const known = name.replace(/^larder_/, '')
    assert.ok([`"larder_${known}"`, `"${known}"`, `"${known.replace(/_total$/, '')}"`].some((word) => rust.includes(word)), name)
    assert.equal(type, name.endsWith('_total') ? 'counter' : 'gauge', name)
    assert.ok(python.includes(JSON.stringify(help)), help)
  }
  register.setContentType(client.Registry.OPENMETRICS_CONTENT_TYPE)
  const open = await register.metrics()
  assert.match(open, /^# TYPE larder_tier_lookups counter\nlarder_tier_lookups_total\{/m)
})

test('what is wrong is an error that names it', () => {
  const cache = new Cache('wrong', { ttl: '5m' })
  const refused = (given, message) => assert.throws(() => collectFigures(...given), (error) => error instanceof OptionError && error.message.includes(message))
  refused([new client.Registry(), cache], 'must be prom-client')
  refused([undefined, cache], 'must be prom-client')
  refused([client], 'no cache')
  refused([client, 'shop'], 'cache is of type string')
})
