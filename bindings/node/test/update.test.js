// Updates by a function: of concurrent ones in all processes none is lost.
'use strict'

const assert = require('node:assert/strict')
const { test } = require('node:test')
const { Cache, EncodeError, KEEP, REMOVE } = require('larder-cache')
const { pause, redis } = require('./support.js')

const addOne = (count = 0) => count + 1

test('updates of many callers on two nodes add up', async (t) => {
  const { url } = await redis(t)
  // Two nodes in one process: their options differ.
  const caches = [1, 2].map((number) => new Cache('update', { ttl: '5m', redis: url, memoryBytes: (64 << 20) + number }))
  const views = caches.map((cache) => cache.view('v'))
  const slow = async (count = 0) => {
    await pause(1)
    return count + 1
  }
  await Promise.all(Array.from({ length: 100 }, (_, number) => views[number % 2].update('k', number % 5 === 0 ? slow : addOne)))
  assert.deepEqual(await Promise.all(views.map((view) => view.get('k'))), [100, 100])
  await Promise.all(caches.map((cache) => cache.close()))
})

test('the function is called again if another writer comes first', async (t) => {
  const { url } = await redis(t)
  const caches = [1, 2].map((number) => new Cache('update', { ttl: '5m', redis: url, memoryBytes: (64 << 20) + number }))
  const [view, other] = caches.map((cache) => cache.view('v'))
  const got = []
  const made = await view.update('k', async (found) => {
    got.push(found)
    if (got.length === 1) await other.set('k', { n: 1 })
    return { of: found ?? null }
  })
  assert.deepEqual([made, got], [{ of: { n: 1 } }, [undefined, { n: 1 }]])
  await Promise.all(caches.map((cache) => cache.close()))
})

test('a value is kept or removed, and keeps its time unless the update has one', async () => {
  const view = new Cache('update alone', { ttl: '5m' }).view('v')
  assert.equal(await view.update('k', () => KEEP), undefined)
  await view.set('k', 1, { ttl: '1h' })
  assert.equal(await view.update('k', addOne), 2)
  assert.ok(await view.ttl('k') > 3_000_000)
  assert.equal(await view.update('k', addOne, { ttl: 60_000 }), 3)
  assert.ok(await view.ttl('k') <= 60_000)
  assert.equal(await view.update('k', () => KEEP), 3)
  assert.equal(await view.update('k', () => REMOVE), undefined)
  assert.equal(await view.get('k'), undefined)
})

test('a function that throws changes nothing and holds nobody up', async () => {
  const view = new Cache('update throws', { ttl: '5m' }).view('v')
  await view.set('k', 1)
  const thrown = new Error('no')
  await assert.rejects(view.update('k', () => { throw thrown }), thrown)
  await assert.rejects(view.update('k', () => undefined), EncodeError)
  const began = Date.now()
  assert.equal(await view.update('k', addOne), 2)
  assert.ok(Date.now() - began < 1000)
})
