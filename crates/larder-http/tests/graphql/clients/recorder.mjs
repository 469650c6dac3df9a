// A fetch that records method, Cache-Status and body of each exchange, for the checks of the client scripts.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";

export const endpoint = process.argv[2];
export const exchanges = [];

// A script that hangs must not outlive its test.
setTimeout(() => process.exit(3), 30_000).unref();

export async function recordingFetch(target, options = {}) {
  const response = await fetch(target, options);
  exchanges.push({
    method: options.method ?? "GET",
    body: options.body,
    status: response.headers.get("cache-status").replace("larder; ", ""),
  });
  return response;
}

/// Checks the Cache-Status of the exchanges since the last call: each must start with its expected text.
export function expect(...statuses) {
  const recorded = exchanges.splice(0);
  const matches = recorded.length === statuses.length && statuses.every((text, n) => recorded[n].status.startsWith(text));
  assert.ok(matches, `expected ${JSON.stringify(statuses)}, recorded ${JSON.stringify(recorded, null, 1)}`);
  return recorded;
}

export const sha256 = (text) => createHash("sha256").update(text).digest("hex");

export const STORED = "fwd=uri-miss; stored";
export const HIT = "hit; ttl=";
export const bypass = (reason) => `fwd=bypass; detail=${reason}`;
