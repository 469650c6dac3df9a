// node-redis: transactions, WATCH, messages, scripts, and the client-side cache.

import assert from "node:assert/strict";
import { createClient, WatchError } from "redis";
import { eventually, inbox, key, survives, test, url } from "./suite.mjs";

const NAME = "node-redis";

export async function run() {
  for (const RESP of [2, 3]) {
    const client = await connect({ RESP });
    const cases = { values, MULTI: transaction, WATCH: watch, "publish and subscribe": messages, script, hashes };
    for (const [name, run] of Object.entries(cases)) {
      await test(NAME, name, () => run(client, key()), RESP);
    }
    survives(NAME, await survivor(client), RESP);
  }
  await test(NAME, "client-side cache", () => clientSideCache(key()), 3);
}

async function connect(options) {
  const client = createClient({ url, ...options });
  client.on("error", () => {});
  await client.connect();
  return client;
}

async function values(client, name) {
  assert.equal(await client.set(name, "1", { expiration: { type: "EX", value: 60 } }), "OK");
  assert.equal(await client.get(name), "1");
  assert.equal(await client.incrBy(name, 41), 42);
  assert.deepEqual(await client.mGet([name, `${name}:missing`]), ["42", null]);
  assert.ok((await client.ttl(name)) > 0);
  const found = [];
  for await (const names of client.scanIterator({ MATCH: name })) found.push(...names);
  assert.deepEqual(found, [name]);
  assert.equal(await client.del(name), 1);
}

async function transaction(client, name) {
  assert.deepEqual(await client.multi().set(name, 1).incr(name).get(name).exec(), ["OK", 2, "2"]);
  await assert.rejects(client.multi().set(name, "text").incr(name).exec());
  assert.equal(await client.get(name), "text");
}

async function watch(client, name) {
  const watcher = await client.duplicate().connect();
  await watcher.watch(name);
  await client.set(name, "changed");
  await assert.rejects(watcher.multi().set(name, "lost").exec(), WatchError);
  await watcher.watch(name);
  assert.deepEqual(await watcher.multi().set(name, "kept").exec(), ["OK"]);
  watcher.destroy();
}

async function messages(client, name) {
  const received = inbox();
  const subscriber = await client.duplicate().connect();
  await subscriber.subscribe(name, (message, channel) => received.put([channel, message]));
  await subscriber.pSubscribe(`${name}:*`, (message, channel) => received.put([channel, message]));
  assert.equal(await client.publish(name, "first"), 1);
  assert.equal(await client.publish(`${name}:a`, "second"), 1);
  assert.deepEqual(await received.next(), [name, "first"]);
  assert.deepEqual(await received.next(), [`${name}:a`, "second"]);
  await subscriber.unsubscribe(name);
  assert.equal(await client.publish(name, "nobody"), 0);
  subscriber.destroy();
}

async function script(client, name) {
  const add = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
  assert.equal(await client.eval(add, { keys: [name], arguments: ["5"] }), 5);
  const digest = await client.scriptLoad(add);
  assert.equal(await client.evalSha(digest, { keys: [name], arguments: ["5"] }), 10);
}

async function hashes(client, name) {
  assert.equal(await client.hSet(name, "field", "value"), 1);
}

async function clientSideCache(name) {
  const writer = await connect({});
  const cached = await connect({ RESP: 3, clientSideCache: { ttl: 0, maxEntries: 100, evictPolicy: "LRU" } });
  await writer.set(name, "old");
  assert.equal(await cached.get(name), "old");
  assert.equal(await cached.get(name), "old");
  assert.equal(cached.clientSideCache?.stats().hitCount ?? 1, 1);
  await writer.set(name, "new");
  await eventually(async () => assert.equal(await cached.get(name), "new"));
  writer.destroy();
  cached.destroy();
}

// The client and its subscriber come back by themselves.
async function survivor(client) {
  const name = key();
  const received = inbox();
  const subscriber = client.duplicate();
  subscriber.on("error", () => {});
  await subscriber.connect();
  await subscriber.subscribe(name, (message) => received.put(message));
  return async () => {
    await eventually(async () => assert.equal(await client.publish(name, "after"), 1));
    assert.equal(await received.next(), "after");
  };
}
