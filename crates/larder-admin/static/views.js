// The views of the page. Each is built once for its part or tier; after that only texts and curves change.

import { Bar, Figure, Spark, el, period } from "/elements.js";
import { format, moment, span, words } from "/format.js";
import { purgeForm } from "/purge.js";
import {
  ALL, RATE_SECONDS, RATIO_SECONDS, activity, curve, history, keyOf, lookedUp, looksUp, quantile, ratio, recentTotal,
} from "/samples.js";

const MAX_EVENTS = 50;
/** Why requests were not answered from a cache, by outcome. */
const REASONS = { bypass: "not looked up, because of", unstored: "not stored, because of" };

/** Why lookups missed. */
const CAUSES = {
  first: "read for the first time",
  expired: "its time was over",
  evicted: "removed to make room",
  invalidated: "removed by its key",
  purged: "removed with others",
  not_stored: "nothing stored since",
  unservable: "there, but stale or not proved",
  unknown: "new, or forgotten",
};

export class TotalView {
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
    const recent = recentTotal(stats.parts, RATE_SECONDS);
    const minute = recentTotal(stats.parts, RATIO_SECONDS);
    this.ratio.figure.show(minute.ratio === null ? null : format.ratio(minute.ratio));
    // What the sum consists of, so that it can be compared with the parts below. A server has no origin.
    const shares = (list, show) => list.map((own) => `${own.part} ${words(show(own))}`).join(" · ");
    this.ratio.note.textContent = shares(minute.parts, ({ ratio }) => format.ratio(ratio)) || "answered without the origin";
    this.ratio.note.title = "Answered without the origin, in the last minute. A cache server has no origin: its clients have.";
    this.rate.figure.show(recent.known ? format.rate(recent.operations) : null);
    this.rate.note.textContent = `in ${stats.parts.length} ${stats.parts.length === 1 ? "part" : "parts"}`;
    this.missed.figure.show(recent.known ? format.rate(recent.missed) : null);
    this.missed.note.textContent = shares(recent.parts, ({ missed }) => format.rate(missed)) || "misses in all tiers";
    this.missed.note.title = "Misses in all tiers of a part, in the last ten seconds";
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
    const title = el("h3", "", tier.tier);
    title.title = tier.tier;
    this.node = el("div", "tier",
      title,
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
    const recent = activity(this.key, index, RATE_SECONDS);
    const minute = ratio(activity(this.key, index, RATIO_SECONDS));
    this.ratio.show(minute === null ? null : format.ratio(minute));
    const [hits, lookups] = lookedUp(tier);
    this.since.textContent = lookups ? `${words(format.count(hits))} of ${words(format.count(lookups))} in all` : "";
    this.since.title = lookups ? `${words(format.ratio(hits / lookups))} since the start: ${hits} hits, ${lookups - hits} misses` : "";
    this.rate.show(recent && format.rate(recent.operations / recent.seconds));
    const busy = Object.entries(tier.operations).sort((a, b) => b[1] - a[1]).slice(0, 3);
    this.busiest.textContent = busy.map(([name, count]) => `${name.replaceAll("_", " ")} ${words(format.count(count))}`).join(" · ");
    const [p50, p99] = [quantile(recent, 0.5), quantile(recent, 0.99)];
    this.p50.show(p50 === null ? null : format.seconds(p50));
    this.p99.show(p99 === null ? null : format.seconds(p99));
    this.tail.textContent = tier.latency?.count ? `p99.9 ${words(format.seconds(tier.latency.p999_seconds))} · max ${words(format.seconds(tier.latency.max_seconds))} in all` : "";
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

/** A list of names and values, some with a note: the reasons or the further figures of a part. */
class ListView {
  constructor(title, classes, label = (name) => name.replaceAll("_", " ")) {
    this.label = label;
    this.list = el("dl", "");
    this.node = el("div", classes, ...(title ? [el("h3", "", title)] : []), this.list);
    this.rows = [];
    this.names = "";
  }

  /** `entries` are [name, value, help, note]. */
  show(entries) {
    // A name may occur twice, as that of two keys which are no text.
    const names = JSON.stringify(entries.map(([name]) => name));
    if (names !== this.names) {
      this.names = names;
      this.rows = entries.map(([name, , , note]) => {
        const [figure, term] = [new Figure(), el("dt", "", el("span", "", this.label(name)))];
        if (note) term.append(el("small", "", note));
        figure.node.className = "";
        return { figure, term, node: el("div", "", term, el("dd", "", figure.node)) };
      });
      this.list.replaceChildren(...this.rows.map((row) => row.node));
    }
    entries.forEach(([, value, help = ""], n) => {
      const { figure, term } = this.rows[n];
      figure.show(value);
      if (term.title !== help) term.title = help;
    });
    this.node.hidden = !entries.length;
  }
}

export class PartView {
  constructor(part) {
    this.name = part.part;
    this.state = el("span", "");
    this.restarts = el("span", "restarts");
    this.tiers = part.tiers.map((tier) => new TierView(part, tier));
    this.reasons = Object.entries(REASONS).map(([outcome, title]) => [outcome, new ListView(title, "list")]);
    this.misses = part.tiers.map((tier) => new ListView(`${tier.tier} misses, by cause`, "list"));
    this.top = new Map();
    this.tops = el("div", "tops");
    this.figures = new ListView("", "figures");
    this.degradations = el("ul", "degradations");
    this.failure = el("p", "failure");
    this.notes = el("p", "notes");
    const lists = [...this.misses, ...this.reasons.map(([, list]) => list)].map((list) => list.node);
    this.lists = el("div", "lists", this.tops, ...lists);
    this.purge = part.can_purge ? [purgeForm(part)] : [];
    this.extras = el("div", "extras", this.figures.node, this.lists, ...this.purge);
    const title = el("h2", "", part.part);
    title.id = `part-${encodeURIComponent(part.part)}`;
    const mark = el("i");
    mark.setAttribute("aria-hidden", "true");
    this.node = el("section", "part",
      el("header", "", title, el("span", "kind", part.kind), this.restarts, el("span", "state", mark, this.state)),
      this.degradations, this.failure, this.notes, ...this.tiers.map((tier) => tier.node), this.extras);
    this.node.setAttribute("aria-labelledby", title.id);
  }

  show(part, now) {
    this.node.dataset.state = part.state;
    this.state.textContent = part.state;
    this.restarts.textContent = part.restarts ? `${part.restarts} ${part.restarts === 1 ? "restart" : "restarts"}` : "";
    part.tiers.forEach((tier, n) => this.tiers[n].show(tier, now));
    const lacking = part.degradations ?? [];
    this.degradations.hidden = !lacking.length;
    this.degradations.replaceChildren(...lacking.map(({ name, since, seconds, ready, meaning }) =>
      el("li", ready ? "" : "not-ready",
        el("b", "", name), el("time", "", `since ${moment(new Date(since * 1000))}, ${span(seconds)}`), el("span", "", meaning))));
    this.failure.hidden = !part.last_failure;
    this.failure.textContent = part.last_failure ? `Last failure: ${part.last_failure}` : "";
    const notes = Object.entries(part.notes ?? {}).map(([name, sentence]) => `${name} ${sentence}`);
    this.notes.hidden = !notes.length;
    this.notes.textContent = notes.join(" · ");
    let counted = 0;
    part.tiers.forEach((tier, n) => {
      const causes = Object.entries(tier.miss_causes ?? {}).sort((a, b) => b[1] - a[1]);
      const sum = causes.reduce((total, [, count]) => total + count, 0);
      this.misses[n].show(causes.map(([name, count]) => [name, format.ratio(count / sum), "", CAUSES[name]]));
      counted += causes.length;
    });
    // A restarted part has none.
    for (const [title, list] of this.top) if (!part.top?.[title]) list.show([]);
    for (const [title, entries] of Object.entries(part.top ?? {})) {
      if (!this.top.has(title)) {
        const list = new ListView(`top ${title}`, "list", (name) => name || "(empty)");
        this.top.set(title, list);
        this.tops.append(list.node);
      }
      const help = ({ name, count, error }) => `${name}: ${count} ± ${error}, estimated from a sample`;
      const value = ({ count, error }) => {
        const [number, unit] = format.count(count);
        return [number, `${unit} ± ${words(format.count(error))}`];
      };
      this.top.get(title).show(entries.map((entry) => [entry.name, value(entry), help(entry)]));
      counted += entries.length;
    }
    for (const [outcome, list] of this.reasons) {
      const reasons = Object.entries(part.reasons[outcome] ?? {}).filter(([, count]) => count).sort((a, b) => b[1] - a[1]);
      list.show(reasons.map(([name, count]) => [name, format.count(count)]));
      counted += reasons.length;
    }
    // JSON has null for what is no number.
    const shown = ({ unit, value }) => (value === null ? null : format[unit]?.(value) ?? format.count(value));
    this.figures.show(part.figures.map((figure) => [figure.name, shown(figure), figure.help]));
    this.lists.hidden = !counted;
    this.extras.hidden = !counted && !part.figures.length && !this.purge.length;
  }
}

/** What has happened to the parts, the latest first. */
export class EventsView {
  constructor() {
    this.list = el("ol", "");
    // Scrolled with the keyboard.
    this.list.tabIndex = 0;
    this.node = el("section", "part events", el("header", "", el("h2", "", "Events")), this.list);
    this.node.setAttribute("aria-label", "Events");
    this.node.hidden = true;
  }

  /** Adds events, the oldest first. */
  add(events) {
    for (const { at, part, text } of events) {
      const when = el("time", "");
      when.dateTime = new Date(at * 1000).toISOString();
      this.list.prepend(el("li", "", when, el("b", "", part), el("span", "", text)));
    }
    while (this.list.children.length > MAX_EVENTS) this.list.lastChild.remove();
    // Of all events: those of today become those of yesterday.
    for (const when of this.list.querySelectorAll("time")) when.textContent = moment(new Date(when.dateTime));
    this.node.hidden = !this.list.children.length;
  }
}
