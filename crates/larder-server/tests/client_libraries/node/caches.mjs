// connect-redis with sessions of HTTP requests, and cache-manager with Keyv.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import KeyvRedis from "@keyv/redis";
import { createCache } from "cache-manager";
import { RedisStore } from "connect-redis";
import session from "express-session";
import { Keyv } from "keyv";
import { createClient } from "redis";
import { key, survives, test, url } from "./suite.mjs";

export async function run() {
  const client = createClient({ url });
  client.on("error", () => {});
  await client.connect();
  const store = new RedisStore({ client, prefix: `${key()}:` });
  await test("connect-redis", "sessions", () => sessions(store));
  await test("connect-redis", "store", () => storeOperations(store));
  survives("connect-redis", async () => {
    await promise(store, "set", "survivor", { cookie: {}, cart: 1 });
    assert.equal((await promise(store, "get", "survivor")).cart, 1);
  });

  const keyv = new Keyv({ store: new KeyvRedis(url), namespace: key() });
  keyv.on("error", () => {});
  const cache = createCache({ stores: [keyv] });
  await test("cache-manager", "values", () => cacheOperations(cache));
  survives("cache-manager", async () => {
    await cache.set("survivor", 1);
    assert.equal(await cache.get("survivor"), 1);
  });
}

// A counter in the session of a browser.
async function sessions(store) {
  const load = session({ store, secret: "secret", resave: false, saveUninitialized: false });
  const server = createServer((request, response) => {
    load(request, response, (error) => {
      if (error) return response.writeHead(500).end(error.message);
      request.session.visits = (request.session.visits ?? 0) + 1;
      response.end(String(request.session.visits));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${server.address().port}/`;
  const first = await fetch(address);
  const cookie = first.headers.get("set-cookie").split(";")[0];
  const second = await fetch(address, { headers: { cookie } });
  assert.deepEqual([await first.text(), await second.text()], ["1", "2"]);
  server.closeAllConnections();
  server.close();
}

async function storeOperations(store) {
  await promise(store, "clear");
  const value = { cookie: { maxAge: 60_000 }, cart: ["apple"] };
  await promise(store, "set", "id", value);
  await promise(store, "touch", "id", value);
  assert.deepEqual((await promise(store, "get", "id")).cart, ["apple"]);
  assert.deepEqual(await promise(store, "ids"), ["id"]);
  assert.equal(await promise(store, "length"), 1);
  await promise(store, "destroy", "id");
  assert.equal((await promise(store, "get", "id")) ?? null, null);
}

function promise(store, method, ...words) {
  return new Promise((resolve, reject) => {
    store[method](...words, (error, result) => (error ? reject(error) : resolve(result)));
  });
}

async function cacheOperations(cache) {
  const errors = [];
  cache.on("error", (event) => errors.push(event));
  await cache.set("one", { a: 1 }, 60_000);
  assert.deepEqual(await cache.get("one"), { a: 1 });
  await cache.mset([{ key: "two", value: 2 }, { key: "three", value: 3 }]);
  assert.deepEqual(await cache.mget(["two", "three", "missing"]), [2, 3, undefined]);
  assert.equal(await cache.wrap("made", () => "once", 60_000), "once");
  assert.equal(await cache.wrap("made", () => "twice", 60_000), "once");
  await cache.del("one");
  assert.equal((await cache.get("one")) ?? null, null);
  await cache.clear();
  assert.equal((await cache.get("two")) ?? null, null);
  assert.deepEqual(errors, []);
}
