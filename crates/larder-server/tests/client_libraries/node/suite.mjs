// Runs cases against the server whose address is in the arguments, and prints one line of JSON for each.

import assert from "node:assert/strict";
import { createInterface } from "node:readline";

export const host = process.argv[2];
export const port = Number(process.argv[3]);
export const url = `redis://${host}:${port}`;

let keys = 0;
const survivors = [];

// A name that no other case uses.
export function key() {
  keys += 1;
  return `node:${keys}`;
}

// Runs a case. It has passed if `run` returns.
export async function test(client, name, run, protocol) {
  const started = performance.now();
  const outcome = { client, case: name };
  if (protocol) outcome.protocol = protocol;
  try {
    await within(10_000, run());
  } catch (error) {
    outcome.error = `${error.name}: ${error.message}`;
  }
  console.log(JSON.stringify({ ...outcome, ms: Math.round(performance.now() - started) }));
}

// Calls `use` before the restart, and after it until it succeeds: a connection that broke may cost an error.
export function survives(client, use, protocol) {
  survivors.push({ client, use, protocol });
}

// Restarts the server between two uses of each client, and ends the process.
export async function finish() {
  for (const { client, use } of survivors) {
    await within(10_000, use()).catch((error) => console.error(`before the restart, ${client}: ${error}`));
  }
  const answer = new Promise((resolve) => createInterface({ input: process.stdin }).once("line", resolve));
  console.log(JSON.stringify({ restart: true }));
  assert.equal(await answer, "restarted");
  for (const { client, use, protocol } of survivors) {
    await test(client, "restart", () => eventually(use), protocol);
  }
  process.exit();
}

// Calls a function until it succeeds; its last error is the error.
export async function eventually(use, milliseconds = 4_000) {
  const deadline = performance.now() + milliseconds;
  for (;;) {
    try {
      return await use();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

export function within(milliseconds, promise) {
  const late = new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`nothing within ${milliseconds} ms`)), milliseconds).unref();
  });
  return Promise.race([promise, late]);
}

// A queue of messages, and a promise for the next one.
export function inbox() {
  const messages = [];
  let wake = () => {};
  return {
    put(message) {
      messages.push(message);
      wake();
    },
    async next() {
      while (messages.length === 0) await within(5_000, new Promise((resolve) => (wake = resolve)));
      return messages.shift();
    },
  };
}
