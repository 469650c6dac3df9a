// The dashboard: requests /api/stats once a second and /api/history every five seconds, and draws their differences. The
// page is built once for each set of parts and tiers.

import { period } from "/elements.js";
import { span } from "/format.js";
import { HOUR_SECONDS, MINUTES_SECONDS, addIntervals, extendCurves, forget, history, store } from "/samples.js";
import { EventsView, PartView, TotalView } from "/views.js";

const TIMEOUT_MS = 3000;
const HISTORY_MS = 5000;

const byId = (id) => document.getElementById(id);

const totals = new TotalView();
byId("totals").append(...totals.nodes);
const events = new EventsView();
byId("parts").after(events.node);
let views = [];
let shape = "";

/** The state of the whole in the head of the page: how many parts do not run, or lack something. */
function showHealth(parts) {
  const down = parts.filter((part) => !["running", "degraded"].includes(part.state));
  const degraded = parts.filter((part) => part.state === "degraded");
  const count = (list, what) => (list.length ? [`${list.length} ${list.length === 1 ? "part" : "parts"} ${what}`] : []);
  const text = [...count(down, "not running"), ...count(degraded, "degraded")].join(", ");
  const health = byId("health");
  health.hidden = !text;
  health.dataset.state = down.length ? "down" : "degraded";
  if (health.textContent !== text) health.textContent = text;
  document.title = text ? `${text} – Larder` : "Larder";
}

function show(stats, now) {
  byId("version").textContent = `v${stats.server.version}`;
  byId("uptime").textContent = `up ${span(stats.server.uptime_seconds)}`;
  // Rebuild the page only if parts, tiers or targets of purges were added or removed.
  const found = JSON.stringify(stats.parts.map((part) => [part.part, part.kind, part.tiers.map((tier) => tier.tier), part.purge_targets]));
  if (found !== shape) {
    shape = found;
    views = stats.parts.map((part) => new PartView(part));
    byId("parts").replaceChildren(...views.map((view) => view.node));
  }
  byId("empty").hidden = stats.parts.length > 0;
  showHealth(stats.parts);
  totals.show(stats, now);
  stats.parts.forEach((part, n) => views[n].show(part, now));
}

// ---------------------------------------------------------------- requests

const state = { paused: false, last: null, lastWall: null, recorded: 0, nextHistory: 0 };

function link(name, text) {
  byId("link").dataset.state = name;
  if (byId("link-text").textContent !== text) byId("link-text").textContent = text;
}

async function request(path) {
  const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.json();
}

/** Requests the figures, and now and then what the server has recorded since the last time. */
async function requestFigures() {
  const stats = await request("/api/stats");
  if (performance.now() < state.nextHistory) return { stats };
  const recorded = await request(`/api/history?after=${state.recorded}`);
  state.nextHistory = performance.now() + HISTORY_MS;
  return { stats, recorded };
}

function showGone(error, now) {
  link("gone", "no response");
  const last = state.last === null ? "There are no figures yet." : `The last figures were received ${span(now - state.last)} ago, at ${state.lastWall.toLocaleTimeString()}.`;
  byId("gone-title").textContent = error.message.startsWith("status ") ? `The server returned no figures: ${error.message}.` : "The server does not respond.";
  byId("gone-text").textContent = `${last} Retrying every second.`;
  byId("gone").hidden = false;
  document.body.classList.add("is-gone");
}

/** Adds what the server has recorded to the curves and the events. */
function addRecords(parts, recorded) {
  addIntervals(parts, recorded.intervals, performance.now() / 1000 - recorded.now);
  events.add(recorded.events);
  state.recorded = recorded.last;
}

async function tick() {
  if (state.paused) return;
  const now = performance.now() / 1000;
  let figures;
  try {
    figures = await requestFigures();
  } catch (error) {
    showGone(error, now);
    return;
  }
  if (state.paused) return;
  const { stats, recorded } = figures;
  // A restarted server counts from zero: drop the samples from before the restart.
  const before = history[history.length - 1]?.stats.server.started_at ?? stats.server.started_at;
  const isRestarted = stats.server.started_at !== before;
  if (isRestarted) {
    forget();
    [state.recorded, state.nextHistory] = [0, 0];
  }
  store(stats, now);
  // What a restarted server has recorded since a number of the one before would come a second time.
  if (recorded && !isRestarted) addRecords(stats.parts, recorded);
  extendCurves(stats.parts);
  show(stats, now);
  [state.last, state.lastWall] = [now, new Date()];
  link("live", "live");
  byId("gone").hidden = true;
  document.body.classList.remove("is-gone");
}

function pause() {
  state.paused = !state.paused;
  byId("pause").setAttribute("aria-pressed", String(state.paused));
  byId("pause").textContent = state.paused ? "Resume" : "Pause";
  if (state.paused) link("paused", "paused");
}

/** Shows the last minutes or the last hour. */
function switchPeriod() {
  const isHour = period.seconds !== HOUR_SECONDS;
  Object.assign(period, isHour ? { seconds: HOUR_SECONDS, name: "hour" } : { seconds: MINUTES_SECONDS, name: "3 minutes" });
  byId("period").setAttribute("aria-pressed", String(isHour));
  byId("charts").textContent = `Charts: last ${period.name}.`;
  if (history.length) show(history[history.length - 1].stats, history[history.length - 1].at);
}

byId("period").addEventListener("click", switchPeriod);
byId("pause").addEventListener("click", pause);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  if (event.key === "p") pause();
  if (event.key === "h") switchPeriod();
});

/** Sends one request at a time, one per second at most. */
async function run() {
  for (;;) {
    const started = performance.now();
    await tick().catch((error) => console.error(error));
    await new Promise((wake) => setTimeout(wake, Math.max(100, 1000 - (performance.now() - started))));
  }
}

run();
