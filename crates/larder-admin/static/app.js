// The dashboard: requests /api/stats once a second, stores the samples of three minutes, and draws their differences.
// The page is built once for each set of parts and tiers; after that only texts and curves change. Data from the server
// is inserted as text, never as markup.

const KEEP_SECONDS = 180;
const RATE_SECONDS = 10;
const RATIO_SECONDS = 60;
const CURVE_SECONDS = 2;
const TIMEOUT_MS = 3000;
const ALL = "all";
const HITS = ["hit", "stale"];
const MISSES = ["miss", "collapsed"];

const byId = (id) => document.getElementById(id);

// ---------------------------------------------------------------- numbers and units

const NARROW = "\u202f";

function scaled(value, step, units) {
  let n = 0;
  while (Math.abs(value) >= 999.5 && n < units.length - 1) {
    value /= step;
    n += 1;
  }
  return [digits(value), units[n]];
}

/** A number with three significant digits. */
function digits(value) {
  const size = Math.abs(value);
  if (size >= 99.95 || value === 0) return value.toFixed(0);
  if (size >= 9.995) return value.toFixed(1);
  return value.toFixed(2);
}

const format = {
  count: (value) => (Math.abs(value) < 1000 ? [Math.abs(value) % 1 ? digits(value) : String(value), ""] : scaled(value, 1000, ["", "k", "M", "G", "T"])),
  rate: (value) => {
    const [text, unit] = scaled(value, 1000, ["", "k", "M", "G"]);
    return [text, `${unit}/s`];
  },
  bytes: (value) => (value < 1024 ? [String(Math.round(value)), "B"] : scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"])),
  seconds: (value) => {
    if (value >= 1) return [digits(value), "s"];
    if (value >= 1e-3) return [digits(value * 1e3), "ms"];
    return value >= 1e-6 ? [digits(value * 1e6), "µs"] : [(value * 1e9).toFixed(0), "ns"];
  },
  ratio: (value) => [(Math.floor(value * 1000) / 10).toFixed(1), "%"],
};

const words = ([number, unit]) => (unit ? `${number}${NARROW}${unit}` : number);

function span(seconds) {
  const s = Math.floor(seconds);
  const [d, h, m] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min ${s % 60} s` : `${s} s`;
}

// ---------------------------------------------------------------- elements

function el(tag, classes, ...children) {
  const node = document.createElement(tag);
  if (classes) node.className = classes;
  node.append(...children);
  return node;
}

/** A number with a small unit, or a dash without a value. */
class Figure {
  constructor() {
    this.number = document.createTextNode("–");
    this.unit = el("span", "unit");
    this.node = el("div", "figure", this.number, this.unit);
  }

  show(parts) {
    const [number, unit] = parts ?? ["–", ""];
    if (this.number.data !== number) this.number.data = number;
    if (this.unit.textContent !== unit) this.unit.textContent = unit;
  }
}

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, classes) {
  const node = document.createElementNS(SVG, tag);
  node.setAttribute("class", classes);
  return node;
}

/** A curve of the last minutes; hovering shows a value. */
class Spark {
  constructor(name, show, floor = "zero", classes = "") {
    Object.assign(this, { name, show, floor, points: [], now: 0 });
    this.area = svg("path", "area");
    this.curve = svg("path", "curve");
    this.hair = svg("path", "hair");
    this.svg = svg("svg", "");
    this.svg.setAttribute("viewBox", "0 0 100 100");
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("role", "img");
    this.svg.append(this.area, this.curve, this.hair);
    this.output = el("output");
    this.output.setAttribute("aria-hidden", "true");
    this.node = el("div", `spark ${classes}`, this.svg, this.output);
    this.node.addEventListener("pointermove", (event) => this.read(event));
  }

  /** `points` are [time, value or null], oldest first. */
  draw(points, now) {
    const known = points.filter(([, value]) => value !== null);
    Object.assign(this, { points: known, now });
    const values = known.map(([, value]) => value);
    const top = Math.max(...values, 0);
    const minimum = Math.min(...values, top);
    // A ratio varies little: its axis starts below the minimum and covers at least ten percentage points.
    const bottom = this.floor === "zero" ? 0 : Math.max(0, Math.min(minimum - 0.02, top - 0.1));
    const height = (this.floor === "zero" ? top * 1.08 : Math.min(1, top + 0.01) - bottom) || 1;
    const x = (time) => 100 - ((now - time) / KEEP_SECONDS) * 100;
    const y = (value) => 97 - ((value - bottom) / height) * 94;
    let [curve, area, start, last] = ["", "", null, null];
    const close = () => {
      if (start !== null) area += `L${last} 100L${start} 100Z`;
    };
    let gap = true;
    for (const [time, value] of points) {
      if (value === null) {
        close();
        [gap, start] = [true, null];
        continue;
      }
      const at = x(time).toFixed(2);
      const step = `${gap ? "M" : "L"}${at} ${y(value).toFixed(2)}`;
      curve += step;
      area += step;
      if (gap) start = at;
      [gap, last] = [false, at];
    }
    close();
    this.curve.setAttribute("d", curve);
    this.area.setAttribute("d", area);
    this.svg.setAttribute("aria-label", values.length
      ? `${this.name}: ${words(this.show(values[values.length - 1]))} now, from ${words(this.show(minimum))} to ${words(this.show(top))} in the last 3 minutes`
      : `${this.name}: no data yet`);
  }

  read(event) {
    if (!this.points.length) return;
    const box = this.node.getBoundingClientRect();
    const time = this.now - (1 - (event.clientX - box.left) / box.width) * KEEP_SECONDS;
    const nearest = this.points.reduce((a, b) => (Math.abs(b[0] - time) < Math.abs(a[0] - time) ? b : a));
    const x = 100 - ((this.now - nearest[0]) / KEEP_SECONDS) * 100;
    this.hair.setAttribute("d", `M${x} 0V100`);
    this.output.textContent = `${words(this.show(nearest[1]))}, ${Math.round(this.now - nearest[0])} s ago`;
    const half = this.output.offsetWidth / 2;
    this.output.style.left = `${Math.min(Math.max((x / 100) * box.width, half), box.width - half)}px`;
  }
}

/** Used memory in relation to the capacity. */
class Bar {
  constructor() {
    this.fill = el("div");
    this.node = el("div", "bar", this.fill);
    this.node.setAttribute("role", "meter");
    this.node.setAttribute("aria-label", "Memory used");
    this.node.setAttribute("aria-valuemin", "0");
    this.node.setAttribute("aria-valuemax", "100");
  }

  show(used, capacity) {
    const share = capacity ? Math.min(1, used / capacity) : 0;
    this.fill.style.width = `${(share * 100).toFixed(1)}%`;
    this.node.setAttribute("aria-valuenow", (share * 100).toFixed(0));
    this.node.setAttribute("aria-valuetext", `${words(format.bytes(used))} of ${words(format.bytes(capacity))}`);
  }
}

// ---------------------------------------------------------------- figures of the samples

/** The activity of a tier between two samples, or null if it is unknown: a sample is missing, or the part restarted. */
function between(before, after) {
  if (!before || !after) return null;
  const sum = (counts, names) => names.reduce((total, name) => total + (counts[name] ?? 0), 0);
  const all = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);
  const hits = sum(after.lookups, HITS) - sum(before.lookups, HITS);
  const misses = sum(after.lookups, MISSES) - sum(before.lookups, MISSES);
  const counted = Object.keys(after.operations).length ? "operations" : "lookups";
  const operations = all(after[counted]) - all(before[counted]);
  if (hits < 0 || misses < 0 || operations < 0) return null;
  return { hits, misses, operations, latency: latencies(before.latency, after.latency) };
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

/** The quantile `share` of the histogram, interpolated within its bucket. */
function quantile(buckets, share) {
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

/** Whether a tier has lookups, and so hits and misses. */
const looksUp = (tier) => Object.keys(tier.lookups).length > 0;

const ratio = (done) => (done && done.hits + done.misses > 0 ? done.hits / (done.hits + done.misses) : null);

// ---------------------------------------------------------------- history

/** The samples of the last minutes, each { at: seconds, tiers: Map(key → tier), stats }. */
const history = [];

const keyOf = (part, tier) => JSON.stringify([part.part, tier.tier]);

function store(stats, at) {
  const tiers = new Map();
  for (const part of stats.parts) for (const tier of part.tiers) tiers.set(keyOf(part, tier), tier);
  history.push({ at, tiers, stats });
  while (history[0].at < at - KEEP_SECONDS - RATIO_SECONDS) history.shift();
}

/** The latest sample that is at least `seconds` older than sample `index`, or the oldest sample. */
function earlier(index, seconds) {
  let n = index;
  while (n > 0 && history[index].at - history[n].at < seconds - 0.25) n -= 1;
  return history[n];
}

/** The activity of one tier in the seconds before sample `index`, and the exact duration. */
function window(key, index, seconds) {
  const [before, after] = [earlier(index, seconds), history[index]];
  if (before === after) return null;
  const done = between(before.tiers.get(key), after.tiers.get(key));
  return done && { ...done, seconds: after.at - before.at };
}

/**
* The total activity of all parts. A request enters a part at its first tier with lookups; a miss in the last of these
 * tiers goes to the origin. A server has no origin: its clients handle its misses.
 */
function totalActivity(parts, index, seconds) {
  const sum = { lookups: 0, misses: 0, operations: 0, missed: 0, known: false };
  for (const part of parts) {
    if (!part.tiers.length) continue;
    const work = window(keyOf(part, part.tiers[0]), index, seconds);
    if (!work) continue;
    sum.operations += work.operations / work.seconds;
    sum.known = true;
    const looking = part.kind === "server" ? [] : part.tiers.filter(looksUp);
    if (!looking.length) continue;
    const first = window(keyOf(part, looking[0]), index, seconds);
    const last = window(keyOf(part, looking[looking.length - 1]), index, seconds);
    if (!first || !last) continue;
    sum.lookups += first.hits + first.misses;
    sum.misses += last.misses;
    sum.missed += last.misses / last.seconds;
  }
  return { ...sum, ratio: sum.lookups ? Math.max(0, 1 - sum.misses / sum.lookups) : null };
}

/** The curves by tier: one point per sample, computed once. */
const curves = new Map();

function curve(key) {
  if (!curves.has(key)) curves.set(key, { ratio: [], rate: [], p99: [], missed: [] });
  return curves.get(key);
}

function extendCurves(parts) {
  const index = history.length - 1;
  const { at, tiers } = history[index];
  for (const key of tiers.keys()) {
    const short = window(key, index, CURVE_SECONDS);
    const own = curve(key);
    own.ratio.push([at, ratio(short)]);
    own.rate.push([at, short && short.operations / short.seconds]);
    own.p99.push([at, short && quantile(short.latency, 0.99)]);
  }
  const sum = totalActivity(parts, index, CURVE_SECONDS);
  curve(ALL).ratio.push([at, sum.ratio]);
  curve(ALL).rate.push([at, sum.known ? sum.operations : null]);
  curve(ALL).missed.push([at, sum.known ? sum.missed : null]);
  for (const own of curves.values()) {
    for (const points of Object.values(own)) while (points[0] && points[0][0] < at - KEEP_SECONDS) points.shift();
  }
}

// ---------------------------------------------------------------- the page

class TotalView {
  constructor() {
    this.ratio = this.card("Hit ratio", new Spark("Hit ratio", format.ratio, "near"));
    this.rate = this.card("Operations", new Spark("Operations", format.rate));
    this.missed = this.card("To the origin", new Spark("To the origin", format.rate, "zero", "quiet"));
    this.memory = this.card("Memory", new Bar());
    this.nodes = [this.ratio, this.rate, this.missed, this.memory].map((card) => card.node);
  }

  card(title, drawing) {
    const [figure, note] = [new Figure(), el("p", "note")];
    const node = el("article", "total", el("h2", "", title), figure.node, note, drawing.node);
    return { node, figure, note, drawing };
  }

  show(stats, now) {
    const index = history.length - 1;
    const recent = totalActivity(stats.parts, index, RATE_SECONDS);
    const minute = totalActivity(stats.parts, index, RATIO_SECONDS);
    this.ratio.figure.show(minute.ratio === null ? null : format.ratio(minute.ratio));
    this.ratio.note.textContent = "answered without the origin";
    this.rate.figure.show(recent.known ? format.rate(recent.operations) : null);
    this.rate.note.textContent = `in ${stats.parts.length} ${stats.parts.length === 1 ? "part" : "parts"}`;
    this.missed.figure.show(recent.known ? format.rate(recent.missed) : null);
    this.missed.note.textContent = "misses in all tiers";
    const tiers = stats.parts.flatMap((part) => part.tiers);
    const sum = (field) => tiers.reduce((total, tier) => total + (tier[field] ?? 0), 0);
    const [used, capacity] = [sum("bytes"), sum("capacity_bytes")];
    this.memory.figure.show(tiers.some((tier) => tier.bytes !== undefined) ? format.bytes(used) : null);
    this.memory.note.textContent = `${capacity ? `of ${words(format.bytes(capacity))}, ` : ""}${words(format.count(sum("entries")))} entries`;
    this.memory.drawing.show(used, capacity);
    for (const name of ["ratio", "rate", "missed"]) this[name].drawing.draw(curve(ALL)[name], now);
  }
}

class TierView {
  constructor(part, tier) {
    this.key = keyOf(part, tier);
    this.ratio = new Figure();
    this.since = el("p", "note");
    this.ratioSpark = new Spark(`${part.part} ${tier.tier}, hit ratio`, format.ratio, "near");
    this.rate = new Figure();
    this.busiest = el("p", "note");
    this.rateSpark = new Spark(`${part.part} ${tier.tier}, operations`, format.rate);
    [this.p50, this.p99] = [new Figure(), new Figure()];
    this.tail = el("p", "note");
    this.p99Spark = new Spark(`${part.part} ${tier.tier}, 99th percentile`, format.seconds, "zero", "quiet");
    this.entries = new Figure();
    this.weight = el("p", "note");
    this.memory = new Figure();
    this.bar = new Bar();
    this.room = el("p", "note");
    const cell = (classes, title, ...children) => el("div", `cell ${classes}`, el("h4", "", title), ...children);
    const pair = (title, figure) => el("div", "", el("h4", "", title), figure.node);
    this.ratioCell = cell("ratio", "hit ratio", el("div", "row", this.ratio.node, this.ratioSpark.node), this.since);
    this.entriesCell = cell("entries", "entries", this.entries.node, this.weight);
    this.memoryCell = cell("memory", "memory", this.memory.node, this.bar.node, this.room);
    this.node = el("div", "tier",
      el("h3", "", tier.tier),
      this.ratioCell,
      cell("ops", "operations", el("div", "row", this.rate.node, this.rateSpark.node), this.busiest),
      el("div", "cell latency", el("div", "row", pair("p50", this.p50), pair("p99", this.p99), this.p99Spark.node), this.tail),
      this.entriesCell,
      this.memoryCell,
    );
  }

  show(tier, now) {
    const index = history.length - 1;
    this.ratioCell.classList.toggle("absent", !looksUp(tier));
    this.entriesCell.classList.toggle("absent", tier.entries === undefined);
    this.memoryCell.classList.toggle("absent", tier.bytes === undefined);
    const recent = window(this.key, index, RATE_SECONDS);
    const minute = ratio(window(this.key, index, RATIO_SECONDS));
    this.ratio.show(minute === null ? null : format.ratio(minute));
    this.since.textContent = tier.hit_ratio === undefined ? "" : `${words(format.ratio(tier.hit_ratio))} since the start`;
    this.rate.show(recent && format.rate(recent.operations / recent.seconds));
    const busy = Object.entries(tier.operations).sort((a, b) => b[1] - a[1]).slice(0, 3);
    this.busiest.textContent = busy.map(([name, count]) => `${name} ${words(format.count(count))}`).join(" · ");
    const [p50, p99] = [quantile(recent?.latency, 0.5), quantile(recent?.latency, 0.99)];
    this.p50.show(p50 === null ? null : format.seconds(p50));
    this.p99.show(p99 === null ? null : format.seconds(p99));
    this.tail.textContent = tier.latency?.count ? `p99.9 ${words(format.seconds(tier.latency.p999_seconds))} · max ${words(format.seconds(tier.latency.max_seconds))} since the start` : "";
    this.entries.show(tier.entries === undefined ? null : format.count(tier.entries));
    this.weight.textContent = tier.entries && tier.bytes ? `${words(format.bytes(tier.bytes / tier.entries))} each` : "";
    this.memory.show(tier.bytes === undefined ? null : format.bytes(tier.bytes));
    this.bar.node.hidden = !tier.capacity_bytes;
    this.bar.show(tier.bytes ?? 0, tier.capacity_bytes ?? 0);
    this.room.textContent = tier.capacity_bytes ? `of ${words(format.bytes(tier.capacity_bytes))}` : "";
    const own = curve(this.key);
    this.ratioSpark.draw(own.ratio, now);
    this.rateSpark.draw(own.rate, now);
    this.p99Spark.draw(own.p99, now);
  }
}

/** A list of names and values: the reasons or the further figures of a part. */
class ListView {
  constructor(title, classes) {
    this.list = el("dl", classes);
    this.title = el("h3", "", title);
    this.rows = new Map();
  }

  show(entries) {
    const names = entries.map(([name]) => name);
    if (names.join("\n") !== [...this.rows.keys()].join("\n")) {
      this.rows = new Map(entries.map(([name, , help]) => {
        const [figure, term] = [new Figure(), el("dt", "", name.replaceAll("_", " "))];
        if (help) term.title = help;
        figure.node.className = "";
        return [name, { figure, node: el("div", "", term, el("dd", "", figure.node)) }];
      }));
      this.list.replaceChildren(...[...this.rows.values()].map((row) => row.node));
    }
    for (const [name, value] of entries) this.rows.get(name).figure.show(value);
    this.title.hidden = this.list.hidden = !entries.length;
  }
}

class PartView {
  constructor(part) {
    this.name = part.part;
    this.state = el("span", "");
    this.restarts = el("span", "restarts");
    this.tiers = part.tiers.map((tier) => new TierView(part, tier));
    this.reasons = new ListView("not served from the cache", "reasons");
    this.figures = new ListView("", "");
    this.extras = el("div", "extras", this.figures.list, this.reasons.title, this.reasons.list);
    const title = el("h2", "", part.part);
    title.id = `part-${encodeURIComponent(part.part)}`;
    const mark = el("i");
    mark.setAttribute("aria-hidden", "true");
    this.node = el("section", "part",
      el("header", "", title, el("span", "kind", part.kind), this.restarts, el("span", "state", mark, this.state)),
      ...this.tiers.map((tier) => tier.node), this.extras);
    this.node.setAttribute("aria-labelledby", title.id);
  }

  show(part, now) {
    this.node.dataset.state = part.state;
    this.state.textContent = part.state;
    this.restarts.textContent = part.restarts ? `${part.restarts} ${part.restarts === 1 ? "restart" : "restarts"}` : "";
    part.tiers.forEach((tier, n) => this.tiers[n].show(tier, now));
    const reasons = Object.entries(part.reasons).filter(([, count]) => count).sort((a, b) => b[1] - a[1]);
    this.reasons.show(reasons.map(([name, count]) => [name, format.count(count)]));
    this.figures.show(part.figures.map((figure) => [figure.name, format[figure.unit]?.(figure.value) ?? format.count(figure.value), figure.help]));
    this.extras.hidden = !reasons.length && !part.figures.length;
  }
}

const totals = new TotalView();
byId("totals").append(...totals.nodes);
let views = [];
let shape = "";

function show(stats, now) {
  byId("version").textContent = `v${stats.server.version}`;
  byId("uptime").textContent = `up ${span(stats.server.uptime_seconds)}`;
  // Rebuild the page only if parts or tiers were added or removed.
  const found = JSON.stringify(stats.parts.map((part) => [part.part, part.kind, part.tiers.map((tier) => tier.tier)]));
  if (found !== shape) {
    shape = found;
    views = stats.parts.map((part) => new PartView(part));
    byId("parts").replaceChildren(...views.map((view) => view.node));
  }
  byId("empty").hidden = stats.parts.length > 0;
  extendCurves(stats.parts);
  totals.show(stats, now);
  stats.parts.forEach((part, n) => views[n].show(part, now));
}

// ---------------------------------------------------------------- requests

const state = { paused: false, last: null, lastWall: null };

function link(name, text) {
  byId("link").dataset.state = name;
  if (byId("link-text").textContent !== text) byId("link-text").textContent = text;
}

async function requestStats() {
  const response = await fetch("/api/stats", { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.json();
}

async function tick() {
  if (state.paused) return;
  const now = performance.now() / 1000;
  try {
    const stats = await requestStats();
    if (state.paused) return;
    // A restarted server counts from zero: drop the samples from before the restart.
    const before = history[history.length - 1]?.stats.server.uptime_seconds ?? 0;
    if (stats.server.uptime_seconds < before) {
      history.length = 0;
      curves.clear();
    }
    store(stats, now);
    show(stats, now);
    [state.last, state.lastWall] = [now, new Date()];
    link("live", "live");
    byId("gone").hidden = true;
    document.body.classList.remove("is-gone");
  } catch (error) {
    link("gone", "no response");
    const last = state.last === null ? "There are no figures yet." : `The last figures were received ${span(now - state.last)} ago, at ${state.lastWall.toLocaleTimeString()}.`;
    byId("gone-title").textContent = error.message.startsWith("status ") ? `The server returned no figures: ${error.message}.` : "The server does not respond.";
    byId("gone-text").textContent = `${last} Retrying every second.`;
    byId("gone").hidden = false;
    document.body.classList.add("is-gone");
  }
}

function pause() {
  state.paused = !state.paused;
  byId("pause").setAttribute("aria-pressed", String(state.paused));
  byId("pause").textContent = state.paused ? "Resume" : "Pause";
  if (state.paused) link("paused", "paused");
}

byId("pause").addEventListener("click", pause);
document.addEventListener("keydown", (event) => {
  if (event.key === "p" && !event.ctrlKey && !event.metaKey && !event.altKey) pause();
});

/** Sends one request at a time, one per second at most. */
async function run() {
  for (;;) {
    const started = performance.now();
    await tick();
    await new Promise((wake) => setTimeout(wake, Math.max(100, 1000 - (performance.now() - started))));
  }
}

run();
