// The elements of the page: figures, curves and bars. Data from the server is inserted as text, never as markup.

import { format, span, words } from "/format.js";

export function el(tag, classes, ...children) {
  const node = document.createElement(tag);
  if (classes) node.className = classes;
  node.append(...children);
  return node;
}

/** A number with a small unit, or a dash without a value. */
export class Figure {
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

/** The period that all curves show. */
export const period = { seconds: 180, name: "3 minutes" };

/** A curve of the period; hovering shows a value. */
export class Spark {
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
    const x = (time) => 100 - ((now - time) / period.seconds) * 100;
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
      ? `${this.name}: ${words(this.show(values[values.length - 1]))} now, from ${words(this.show(minimum))} to ${words(this.show(top))} in the last ${period.name}`
      : `${this.name}: no data yet`);
  }

  read(event) {
    if (!this.points.length) return;
    const box = this.node.getBoundingClientRect();
    const time = this.now - (1 - (event.clientX - box.left) / box.width) * period.seconds;
    const nearest = this.points.reduce((a, b) => (Math.abs(b[0] - time) < Math.abs(a[0] - time) ? b : a));
    const x = 100 - ((this.now - nearest[0]) / period.seconds) * 100;
    this.hair.setAttribute("d", `M${x} 0V100`);
    this.output.textContent = `${words(this.show(nearest[1]))}, ${span(Math.round(this.now - nearest[0]))} ago`;
    const half = this.output.offsetWidth / 2;
    this.output.style.left = `${Math.min(Math.max((x / 100) * box.width, half), box.width - half)}px`;
  }
}

/** Used memory in relation to the capacity. */
export class Bar {
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
