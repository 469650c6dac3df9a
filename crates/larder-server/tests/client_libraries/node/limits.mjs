// redlock and rate-limiter-flexible, with ioredis below them.

import assert from "node:assert/strict";
import { RateLimiterRedis } from "rate-limiter-flexible";
import Redlock from "redlock";
import { connect } from "./ioredis.mjs";
import { key, survives, test } from "./suite.mjs";

export async function run() {
  const client = connect();
  await test("redlock", "lock", () => lock(client, key()));
  survives("redlock", () => lock(client, key()));
  await test("rate-limiter-flexible", "consume", () => consume(client, key()));
  const limiter = new RateLimiterRedis({ storeClient: client, keyPrefix: key(), points: 1_000, duration: 60 });
  survives("rate-limiter-flexible", () => limiter.consume("user"));
}

async function lock(client, name) {
  const locks = new Redlock([client], { retryCount: 0 });
  const errors = [];
  locks.on("clientError", (error) => errors.push(error));
  // The error of the server, and not the summary of Redlock.
  const held = await locks.lock(name, 5_000).catch((error) => Promise.reject(errors[0] ?? error));
  await assert.rejects(locks.lock(name, 5_000), (error) => error.name === "LockError");
  const extended = await held.extend(5_000);
  await extended.unlock();
  assert.equal(await client.exists(name), 0);
}

async function consume(client, keyPrefix) {
  const limiter = new RateLimiterRedis({ storeClient: client, keyPrefix, points: 2, duration: 60 });
  assert.equal((await limiter.consume("user")).remainingPoints, 1);
  assert.equal((await limiter.consume("user")).remainingPoints, 0);
  // It rejects with a result and not with an error, when the limit is reached.
  const rejected = await limiter.consume("user").then(() => null, (rejection) => rejection);
  if (rejected instanceof Error) throw rejected;
  assert.equal(rejected?.remainingPoints, 0);
  assert.equal((await limiter.get("user")).consumedPoints, 3);
  assert.equal(await limiter.delete("user"), true);
}
