// The samples of the last minutes and the server's records of the last hour, and what is computed from them.

import { period } from "/elements.js";

export const MINUTES_SECONDS = 180;
export const HOUR_SECONDS = 3600;
export const RATE_SECONDS = 10;
export const RATIO_SECONDS = 60;
const CURVE_SECONDS = 2;
export const ALL = "all";
const HITS = ["hit", "shared", "disk", "stale"];
const MISSES = ["validated", "miss", "collapsed"];
/** Operations that failed or were not sent to the tier, lookups among them. */
const FAILURES = ["error", "skipped"];
/** Values that were found and cannot be used. */
const UNREADABLE = ["unreadable"];

// ---------------------------------------------------------------- activity

/** The activity of a tier between two samples, or null if it is unknown: a sample is missing, or the part restarted. */
function between(before, after) {
  if (!before || !after) return null;
  const sum = (counts, names) => names.reduce((total, name) => total + (counts[name] ?? 0), 0);
  const all = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);
  const more = (names) => sum(after.lookups, names) - sum(before.lookups, names);
  const [hits, misses, failures, unreadable] = [HITS, MISSES, FAILURES, UNREADABLE].map(more);
  const counted = Object.keys(after.operations).length ? "operations" : "lookups";
  const operations = all(after[counted]) - all(before[counted]);
  if (hits < 0 || misses < 0 || operations < 0) return null;
  const latency = latencies(before.latency, after.latency);
  return { hits, misses, failures, unreadable, operations, latency, max: after.latency?.max_seconds };
}

/** The histogram of the time between two samples: [bound in seconds, count up to it]. */
function latencies(before, after) {
  if (!after) return null;
  const previous = before?.buckets ?? [];
  const upTo = (buckets, bound) => {
    let count = 0;
    for (const [edge, n] of buckets) {
      if (edge > bound) break;
      count = n;
    }
    return count;
  };
  const edges = [...new Set([...previous, ...after.buckets].map(([edge]) => edge))].sort((a, b) => a - b);
  return edges.map((edge) => [edge, upTo(after.buckets, edge) - upTo(previous, edge)]);
}

/** The quantile `share` of an activity's latency, interpolated within its bucket, which may end above the maximum. */
export function quantile(done, share) {
  const value = interpolated(done?.latency, share);
  return value === null ? null : Math.min(value, done.max ?? value);
}

function interpolated(buckets, share) {
  const total = buckets?.length ? buckets[buckets.length - 1][1] : 0;
  if (!total) return null;
  const rank = share * total;
  let [edge, seen] = [null, 0];
  for (const [bound, count] of buckets) {
    if (count >= rank && count > seen) {
      // The bounds of a bucket differ by the factor √2. Empty buckets are omitted, so the previous edge may be too low.
      const low = Math.max(edge ?? 0, bound / Math.SQRT2);
      return low + ((rank - seen) / (count - seen)) * (bound - low);
    }
    [edge, seen] = [bound, count];
  }
  return edge;
}

/** The hits of a tier since the start, and its lookups that could have been hits. */
export function lookedUp({ lookups }) {
  const sum = (names) => names.reduce((total, name) => total + (lookups[name] ?? 0), 0);
  return [sum(HITS), sum(HITS) + sum(MISSES)];
}

/** Whether a tier has lookups, and so hits and misses. */
export const looksUp = (tier) => Object.keys(tier.lookups).length > 0;

export const ratio = (done) => (done && done.hits + done.misses > 0 ? done.hits / (done.hits + done.misses) : null);

// ---------------------------------------------------------------- samples

/** The samples of the last minutes, each { at: seconds, tiers: Map(key → tier), stats }. */
export const history = [];

export const keyOf = (part, tier) => JSON.stringify([part.part, tier.tier]);

export function store(stats, at) {
  const tiers = new Map();
  for (const part of stats.parts) for (const tier of part.tiers) tiers.set(keyOf(part, tier), tier);
  history.push({ at, tiers, stats });
  while (history[0].at < at - 2 * RATIO_SECONDS) history.shift();
}

/** The latest sample that is at least `seconds` older than sample `index`, or the oldest sample. */
function earlier(index, seconds) {
  let n = index;
  while (n > 0 && history[index].at - history[n].at < seconds - 0.25) n -= 1;
  return history[n];
}

/** The activity of one tier in the seconds before sample `index`, and the exact duration. */
export function activity(key, index, seconds) {
  const [before, after] = [earlier(index, seconds), history[index]];
  if (before === after) return null;
  const done = between(before.tiers.get(key), after.tiers.get(key));
  return done && { ...done, seconds: after.at - before.at };
}

/**
 * The lookups that no tier has answered. A tier that is down has failures instead of misses. They include writes, so no more
 * of them are counted than lookups have missed in the first tier and got no reply from the last one.
 */
function unanswered(first, last) {
  const withoutReply = Math.max(0, first.misses - last.hits - last.misses);
  return last.misses + last.unreadable + Math.min(last.failures, withoutReply);
}

/**
 * The total activity of all parts; `of` returns that of one tier. A request enters a part at its first tier with lookups;
 * one that the last of these tiers does not answer goes to the origin. A server has no origin: its clients handle its
 * misses.
 */
export function totalActivity(parts, of) {
  const sum = { lookups: 0, misses: 0, operations: 0, missed: 0, known: false, parts: [] };
  for (const part of parts) {
    if (!part.tiers.length) continue;
    const work = of(keyOf(part, part.tiers[0]));
    if (!work) continue;
    sum.operations += work.operations / work.seconds;
    sum.known = true;
    const looking = part.kind === "server" ? [] : part.tiers.filter(looksUp);
    if (!looking.length) continue;
    const first = of(keyOf(part, looking[0]));
    const last = of(keyOf(part, looking[looking.length - 1]));
    if (!first || !last) continue;
    const lookups = first.hits + first.misses;
    sum.lookups += lookups;
    // Without Redis, a value in memory may be found and loaded again all the same.
    const loads = of(keyOf(part, { tier: "origin" }))?.operations ?? 0;
    const misses = Math.min(lookups, Math.max(unanswered(first, last), loads));
    if (lookups) sum.parts.push({ part: part.part, ratio: Math.max(0, 1 - misses / lookups), missed: misses / last.seconds });
    sum.misses += misses;
    sum.missed += misses / last.seconds;
  }
  return { ...sum, ratio: sum.lookups ? Math.max(0, 1 - sum.misses / sum.lookups) : null };
}

/** The activity of all parts in the seconds before the last sample. */
export const recentTotal = (parts, seconds) => totalActivity(parts, (key) => activity(key, history.length - 1, seconds));

// ---------------------------------------------------------------- curves

/** The curves by tier: one for each sample of the last minutes, and one for each interval of the server's hour. */
const minutes = new Map();
const hour = new Map();

function curveIn(curves, key) {
  if (!curves.has(key)) curves.set(key, { ratio: [], rate: [], p99: [], missed: [] });
  return curves.get(key);
}

/** The curve of a tier, or of all, in the period that the page shows. */
export const curve = (key) => curveIn(period.seconds > MINUTES_SECONDS ? hour : minutes, key);

function addPoints(curves, at, tiers, total) {
  for (const [key, done, p99] of tiers) {
    const own = curveIn(curves, key);
    own.ratio.push([at, ratio(done)]);
    own.rate.push([at, done && done.operations / done.seconds]);
    own.p99.push([at, p99]);
  }
  const all = curveIn(curves, ALL);
  all.ratio.push([at, total.ratio]);
  all.rate.push([at, total.known ? total.operations : null]);
  all.missed.push([at, total.known ? total.missed : null]);
}

function dropBefore(curves, time) {
  for (const own of curves.values()) {
    for (const points of Object.values(own)) while (points[0] && points[0][0] < time) points.shift();
  }
}

/** Adds the last sample to the curves of the last minutes. */
export function extendCurves(parts) {
  const index = history.length - 1;
  if (index === 0) return;
  const { at, tiers } = history[index];
  const points = [...tiers.keys()].map((key) => {
    const done = activity(key, index, CURVE_SECONDS);
    return [key, done, done && quantile(done, 0.99)];
  });
  addPoints(minutes, at, points, recentTotal(parts, CURVE_SECONDS));
  dropBefore(minutes, at - MINUTES_SECONDS);
}

/**
 * Adds intervals that the server has recorded; `offset` is the page's clock minus the server's. Those before the page was
 * opened start the curves of the last minutes too.
 */
export function addIntervals(parts, intervals, offset) {
  const opened = history[0]?.at ?? Infinity;
  for (const interval of intervals) {
    const at = interval.ended_at + offset;
    const done = new Map(interval.tiers.map((tier) => [keyOf(tier, tier), { ...tier, seconds: interval.seconds }]));
    const points = [...done].map(([key, tier]) => [key, tier, tier.p99_seconds ?? null]);
    const total = totalActivity(parts, (key) => done.get(key) ?? null);
    addPoints(hour, at, points, total);
    if (at < opened) addPoints(minutes, at, points, total);
  }
  for (const own of minutes.values()) for (const points of Object.values(own)) points.sort((a, b) => a[0] - b[0]);
  const now = performance.now() / 1000;
  dropBefore(hour, now - HOUR_SECONDS);
  dropBefore(minutes, now - MINUTES_SECONDS);
}

/** The server was restarted: it counts from zero. */
export function forget() {
  history.length = 0;
  minutes.clear();
}
