// The visits of one link: a chart of days, and where they come from. Text is inserted as text only, never as HTML.

const CHART_DAYS = 30;
const SVG = "http://www.w3.org/2000/svg";
const number = new Intl.NumberFormat();
const countries = new Intl.DisplayNames(undefined, { type: "region", fallback: "code" });

// The lists, in the order of the page. Bots are apart: they are in no other list.
const DIMENSIONS = [
  ["referrers", "Referrers"], ["countries", "Countries"], ["browsers", "Browsers"],
  ["systems", "Systems"], ["devices", "Devices"], ["bots", "Bots"],
];

export const timeZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** `newer` are visits that the link has had since the server told of it: they are those of today. */
export function showVisits(element, link, newer) {
  showDays(element, link.days, newer);
  const lists = DIMENSIONS.map(([name, title]) => [name, title, link.dimensions[name]]);
  const shown = lists.filter(([, , values]) => values.length > 0);
  element.querySelector(".dimensions").replaceChildren(...shown.map(([name, title, values]) => makeList(name, title, values)));
}

// One bar a day, today on the right.
function showDays(element, days, newer) {
  const byDate = new Map(days.map((day) => [day.date, day.visits]));
  const now = new Date();
  // Noon, so that summer time does not move a date.
  const dates = Array.from({ length: CHART_DAYS }, (_, i) =>
    dateText(new Date(now.getFullYear(), now.getMonth(), now.getDate() - (CHART_DAYS - 1 - i), 12)));
  const counts = dates.map((date) => byDate.get(date) ?? 0);
  counts[counts.length - 1] += newer;
  const highest = Math.max(1, ...counts);
  const sum = counts.reduce((total, count) => total + count, 0);

  const chart = element.querySelector(".chart");
  chart.setAttribute("viewBox", `0 0 ${CHART_DAYS * 10} 100`);
  chart.setAttribute("aria-label", `${number.format(sum)} visits in ${CHART_DAYS} days`);
  chart.replaceChildren(...counts.map((count, i) => makeBar(i, count, highest, dates[i])));
  element.querySelector(".chart-from").textContent = dayName(dates[0]);
  element.querySelector(".chart-sum").textContent = `${number.format(sum)} in ${CHART_DAYS} days`;
}

function makeBar(index, count, highest, date) {
  const height = count === 0 ? 2 : Math.max(5, (count / highest) * 96);
  const bar = makeRect({ x: index * 10 + 1, y: 100 - height, width: 8, height, rx: 1 });
  if (count === 0) bar.classList.add("none");
  const title = document.createElementNS(SVG, "title");
  title.textContent = `${dayName(date)}: ${number.format(count)}`;
  bar.append(title);
  return bar;
}

function makeRect(attributes) {
  const rect = document.createElementNS(SVG, "rect");
  for (const [key, value] of Object.entries(attributes)) rect.setAttribute(key, value);
  return rect;
}

// A table of values, each over a bar that is its share.
function makeList(name, title, values) {
  const total = values.reduce((sum, { visits }) => sum + visits, 0);
  const table = make("table", { className: "dimension" });
  table.dataset.testid = `dimension-${name}`;
  table.append(make("caption", { textContent: title }));
  const body = make("tbody", {});
  body.append(...values.map(({ value, visits }) => {
    const row = make("tr", {});
    const share = document.createElementNS(SVG, "svg");
    share.setAttribute("aria-hidden", "true");
    share.append(makeRect({ width: `${(visits / total) * 100}%`, height: "100%", rx: 3 }));
    const label = make("th", { scope: "row" });
    label.append(share, make("span", { textContent: nameOf(name, value), title: nameOf(name, value) }));
    const percent = make("td", { className: "share", textContent: `${((visits / total) * 100).toFixed(1)} %` });
    row.append(label, make("td", { textContent: number.format(visits) }), percent);
    return row;
  }));
  table.append(body);
  return table;
}

function make(name, properties) {
  return Object.assign(document.createElement(name), properties);
}

function nameOf(dimension, value) {
  return dimension === "countries" && /^[A-Z]{2}$/.test(value) ? countries.of(value) : value;
}

const dateText = (date) => [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
const dayName = (date) => new Date(`${date}T00:00:00Z`).toLocaleDateString(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
