// ioredis: pipelines, transactions, WATCH, messages, and scripts.

import assert from "node:assert/strict";
import { Redis } from "ioredis";
import { eventually, host, inbox, key, port, survives, test } from "./suite.mjs";

const NAME = "ioredis";

export async function run() {
  for (const protocol of [2, 3]) {
    const client = connect({ protocol });
    const cases = {
      values, pipeline, MULTI: transaction, WATCH: watch, "publish and subscribe": messages, script, lists,
    };
    for (const [name, run] of Object.entries(cases)) {
      await test(NAME, name, () => run(client, key()), protocol);
    }
    survives(NAME, await survivor(client), protocol);
  }
}

export function connect(options = {}) {
  const client = new Redis({ host, port, ...options });
  client.on("error", () => {});
  return client;
}

async function values(client, name) {
  assert.equal(await client.set(name, "1", "EX", 60), "OK");
  assert.equal(await client.get(name), "1");
  assert.equal(await client.incrby(name, 41), 42);
  assert.deepEqual(await client.mget(name, `${name}:missing`), ["42", null]);
  assert.ok((await client.ttl(name)) > 0);
  assert.deepEqual((await client.scanStream({ match: name }).toArray()).flat(), [name]);
  assert.equal(await client.del(name), 1);
}

async function pipeline(client, name) {
  const replies = await client.pipeline().set(name, "text").incr(name).get(name).exec();
  assert.deepEqual(replies.map(([error]) => error !== null), [false, true, false]);
  assert.equal(replies[2][1], "text");
}

async function transaction(client, name) {
  const replies = await client.multi().set(name, 1).incr(name).get(name).exec();
  assert.deepEqual(replies, [[null, "OK"], [null, 2], [null, "2"]]);
}

async function watch(client, name) {
  const watcher = client.duplicate();
  await watcher.watch(name);
  await client.set(name, "changed");
  assert.equal(await watcher.multi().set(name, "lost").exec(), null);
  await watcher.watch(name);
  assert.deepEqual(await watcher.multi().set(name, "kept").exec(), [[null, "OK"]]);
  watcher.disconnect();
}

async function messages(client, name) {
  const received = inbox();
  const subscriber = client.duplicate();
  subscriber.on("message", (channel, message) => received.put([channel, message]));
  subscriber.on("pmessage", (_, channel, message) => received.put([channel, message]));
  assert.equal(await subscriber.subscribe(name), 1);
  assert.equal(await subscriber.psubscribe(`${name}:*`), 2);
  assert.equal(await client.publish(name, "first"), 1);
  assert.equal(await client.publish(`${name}:a`, "second"), 1);
  assert.deepEqual(await received.next(), [name, "first"]);
  assert.deepEqual(await received.next(), [`${name}:a`, "second"]);
  assert.equal(await subscriber.unsubscribe(name), 1);
  subscriber.disconnect();
}

async function script(client, name) {
  client.defineCommand("add", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
  assert.equal(await client.add(name, 5), 5);
  assert.equal(await client.add(name, 5), 10);
}

async function lists(client, name) {
  assert.equal(await client.rpush(name, "item"), 1);
}

// The client and its subscriber come back by themselves.
async function survivor(client) {
  const name = key();
  const received = inbox();
  const subscriber = client.duplicate();
  subscriber.on("error", () => {});
  subscriber.on("message", (_, message) => received.put(message));
  await subscriber.subscribe(name);
  return async () => {
    await eventually(async () => assert.equal(await client.publish(name, "after"), 1));
    assert.equal(await received.next(), "after");
  };
}
