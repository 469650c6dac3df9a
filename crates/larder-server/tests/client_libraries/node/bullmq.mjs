// BullMQ: queues and workers, which are scripts over lists, sorted sets and a stream of events.

import assert from "node:assert/strict";
import { once } from "node:events";
import { FlowProducer, Queue, QueueEvents, UnrecoverableError, Worker } from "bullmq";
import { eventually, host, key, port, survives, test } from "./suite.mjs";

const NAME = "BullMQ";
const connection = { host, port };

export async function run() {
  const cases = {
    jobs, "QueueEvents": events, "delayed jobs": delayed, "repeated jobs": repeated, flow, retries, priorities,
    "rate limit": rateLimit, "stalled jobs": stalled, deduplication, "pause and drain": pauseAndDrain,
  };
  for (const [name, run] of Object.entries(cases)) {
    // A colon would separate the name of the queue from the names of its keys.
    await test(NAME, name, () => withQueue(key().replace(":", "-"), run));
  }
  survives(NAME, survivor());
}

// Runs a case with its queue, and what it opens is closed at its end.
async function withQueue(name, run) {
  const opened = [];
  const open = (kind, ...words) => {
    const one = new kind(...words);
    one.on("error", () => {});
    opened.unshift(one);
    return one;
  };
  const queue = open(Queue, name, { connection });
  const parts = {
    queue,
    worker: (process, options) => open(Worker, name, process, { connection, ...options }),
    // Those of the past too: it may begin to listen when a job has already ended.
    events: () => open(QueueEvents, name, { connection, lastEventId: "0" }),
    flows: () => open(FlowProducer, { connection }),
  };
  try {
    await run(parts);
    assert.deepEqual(await queue.getJobCounts("active"), { active: 0 });
  } finally {
    for (const one of opened) await one.close();
  }
}

const double = async (job) => job.data.n * 2;

async function jobs({ queue, worker, events }) {
  const listener = events();
  const added = await queue.addBulk([1, 2, 3].map((n) => ({ name: "double", data: { n } })));
  assert.deepEqual(await queue.getJobCounts("waiting"), { waiting: 3 });
  worker(double, { concurrency: 2 });
  const results = await Promise.all(added.map((job) => job.waitUntilFinished(listener, 5_000)));
  assert.deepEqual(results, [2, 4, 6]);
  assert.deepEqual(await queue.getJobCounts("waiting", "completed"), { waiting: 0, completed: 3 });
  const first = await queue.getJob(added[0].id);
  assert.equal(first.returnvalue, 2);
  // Progress and a log of a job.
  await first.updateProgress(50);
  await first.log("a line");
  assert.deepEqual((await queue.getJobLogs(first.id)).logs, ["a line"]);
}

// The events of a job, in their order, from a stream.
async function events({ queue, worker, events }) {
  const listener = events();
  const seen = [];
  for (const name of ["added", "waiting", "active", "progress", "completed"]) listener.on(name, () => seen.push(name));
  const job = await queue.add("double", { n: 21 });
  worker(async (job) => {
    await job.updateProgress({ part: 1 });
    return double(job);
  });
  assert.equal(await job.waitUntilFinished(listener, 5_000), 42);
  await eventually(() => assert.deepEqual(seen, ["added", "waiting", "active", "progress", "completed"]));
}

// A worker that waits for jobs wakes up when the time of one comes.
async function delayed({ queue, worker, events }) {
  const listener = events();
  const done = [];
  const waiting = worker(async (job) => done.push(job.name));
  await waiting.waitUntilReady();
  const late = await queue.add("late", {}, { delay: 1_000 });
  const never = await queue.add("never", {}, { delay: 3_600_000 });
  const soon = await queue.add("soon", {});
  assert.equal(await late.getState(), "delayed");
  await soon.waitUntilFinished(listener, 5_000);
  await late.waitUntilFinished(listener, 5_000);
  assert.deepEqual(done, ["soon", "late"]);
  assert.ok((await queue.getJob(late.id)).processedOn - late.timestamp >= 1_000);
  await never.promote();
  await never.waitUntilFinished(listener, 5_000);
}

async function repeated({ queue, worker, events }) {
  const done = [];
  const listener = events();
  worker(async (job) => done.push(job.data.n));
  await queue.upsertJobScheduler("often", { every: 100 }, { name: "tick", data: { n: 1 } });
  await queue.upsertJobScheduler("nightly", { pattern: "0 3 * * *" }, { name: "night" });
  while (done.length < 3) await once(listener, "completed");
  assert.deepEqual(done.slice(0, 3), [1, 1, 1]);
  assert.deepEqual((await queue.getJobSchedulers()).map((scheduler) => scheduler.key).sort(), ["nightly", "often"]);
  assert.equal(await queue.removeJobScheduler("often"), true);
  assert.equal(await queue.removeJobScheduler("nightly"), true);
  assert.equal(await queue.getJobSchedulersCount(), 0);
}

// A job that runs after its children, and one whose child fails.
async function flow({ queue, worker, events, flows }) {
  const listener = events();
  const producer = flows();
  const queueName = queue.name;
  const child = (n, opts) => ({ name: "child", queueName, data: { n }, opts });
  const tree = await producer.add({ name: "parent", queueName, children: [child(1), child(2), child(3)] });
  const failing = await producer.add({
    name: "parent", queueName, children: [child(1), child(-1, { failParentOnFailure: true })],
  });
  assert.equal(await tree.job.getState(), "waiting-children");
  worker(async (job) => {
    if (job.data.n < 0) throw new Error("on purpose");
    if (job.name === "child") return double(job);
    return Object.values(await job.getChildrenValues()).reduce((sum, n) => sum + n, 0);
  });
  assert.equal(await tree.job.waitUntilFinished(listener, 5_000), 12);
  await assert.rejects(failing.job.waitUntilFinished(listener, 5_000));
  assert.equal(await failing.job.getState(), "failed");
}

async function retries({ queue, worker, events }) {
  const listener = events();
  worker(async (job) => {
    if (job.name === "broken") throw new UnrecoverableError("for ever");
    if (job.attemptsMade < 2) throw new Error("on purpose");
    return job.attemptsMade;
  });
  const options = { attempts: 3, backoff: { type: "exponential", delay: 20 } };
  const job = await queue.add("fails twice", {}, options);
  assert.equal(await job.waitUntilFinished(listener, 5_000), 2);
  const broken = await queue.add("broken", {}, options);
  await assert.rejects(broken.waitUntilFinished(listener, 5_000), /for ever/);
  const [failed] = await queue.getFailed();
  assert.deepEqual([failed.id, failed.attemptsMade], [broken.id, 1]);
  await failed.remove();
  assert.equal(await queue.getFailedCount(), 0);
}

// Jobs without a priority come first, then the lower numbers.
async function priorities({ queue, worker, events }) {
  const listener = events();
  const order = [];
  const added = [];
  for (const priority of [10, 1, undefined, 5, 1]) {
    added.push(await queue.add(String(priority ?? 0), {}, { priority }));
  }
  worker(async (job) => order.push(job.name));
  await Promise.all(added.map((job) => job.waitUntilFinished(listener, 5_000)));
  assert.deepEqual(order, ["0", "1", "1", "5", "10"]);
}

async function rateLimit({ queue, worker, events }) {
  const listener = events();
  const added = await queue.addBulk([1, 2, 3].map((n) => ({ name: "double", data: { n } })));
  worker(double, { limiter: { max: 1, duration: 200 } });
  await Promise.all(added.map((job) => job.waitUntilFinished(listener, 5_000)));
  const times = (await queue.getCompleted()).map((job) => job.processedOn).sort();
  assert.ok(times[2] - times[0] >= 380, `at ${times}`);
}

// A job whose worker no longer extends its lock goes to another worker.
async function stalled({ queue, worker, events }) {
  const listener = events();
  let hang = () => {};
  const hung = new Promise((resolve) => (hang = resolve));
  const dead = worker(() => new Promise(hang), { lockDuration: 200, skipLockRenewal: true, skipStalledCheck: true });
  const job = await queue.add("double", { n: 21 });
  const moved = once(listener, "stalled");
  await hung;
  worker(double, { stalledInterval: 100 });
  assert.equal(await job.waitUntilFinished(listener, 5_000), 42);
  assert.equal((await moved)[0].jobId, job.id);
  await dead.close(true);
}

async function deduplication({ queue, worker, events }) {
  const listener = events();
  const options = { deduplication: { id: "one", ttl: 60_000 } };
  const first = await queue.add("double", { n: 1 }, options);
  const second = await queue.add("double", { n: 2 }, options);
  assert.equal(second.id, first.id);
  const named = [];
  for (const n of [3, 4]) named.push(await queue.add("double", { n }, { jobId: "named" }));
  worker(double);
  assert.equal(await first.waitUntilFinished(listener, 5_000), 2);
  assert.deepEqual(await Promise.all(named.map((job) => job.waitUntilFinished(listener, 5_000))), [6, 6]);
  assert.equal(await queue.getCompletedCount(), 2);
}

async function pauseAndDrain({ queue, worker, events }) {
  const listener = events();
  await queue.pause();
  const job = await queue.add("double", { n: 1 });
  worker(double);
  assert.deepEqual([await queue.isPaused(), await job.getState()], [true, "waiting"]);
  await queue.resume();
  assert.equal(await job.waitUntilFinished(listener, 5_000), 2);
  await queue.pause();
  await queue.addBulk([1, 2, 3].map((n) => ({ name: "double", data: { n } })));
  assert.equal(await queue.count(), 3);
  await queue.drain();
  assert.equal(await queue.count(), 0);
  assert.equal((await queue.clean(0, 100, "completed")).length, 1);
  await queue.obliterate();
}

// The queue, its worker and its listener connect again by themselves.
function survivor() {
  const name = key().replace(":", "-");
  const queue = new Queue(name, { connection });
  const worker = new Worker(name, double, { connection });
  const events = new QueueEvents(name, { connection, lastEventId: "0" });
  for (const one of [queue, worker, events]) one.on("error", () => {});
  return async () => {
    const job = await queue.add("double", { n: 21 });
    assert.equal(await job.waitUntilFinished(events, 2_000), 42);
  };
}
