// Puts a running Larder under load and looks at its pages, with a keyboard only: the figures move, and the dashboard says
// what is used most and why lookups miss. Checks with axe, and takes the pictures of the documentation.
//
//   CHROMIUM=/usr/bin/chromium SCREENSHOTS=out TOKEN=… node dashboard.mjs http://127.0.0.1:8080 http://127.0.0.1:8081 127.0.0.1:6379
//
// TOKEN is the admin token. LOAD_SECONDS sets how long the load runs before the pictures, 8 by default: the charts show
// three minutes. Prints one line per step. The exit status is 0 if all steps passed, otherwise 1.

import { createConnection } from "node:net";
import { equal, failures, look, main, open, picture, press, step, tabTo, type } from "./page.mjs";

const LOAD_MS = Number(process.env.LOAD_SECONDS ?? 8) * 1_000;
const KEYS = 5_000;

const [linksUrl, adminUrl, resp] = process.argv.slice(2).map((url) => url.replace(/\/$/, ""));
if (!resp || !process.env.TOKEN) {
  console.error("usage: TOKEN=… node dashboard.mjs LINKS_URL ADMIN_URL RESP_ADDRESS");
  process.exit(2);
}

const LINKS = [
  ["docs", "Documentation", "https://docs.example.com/en/latest/", ["team"]],
  ["spring", "The spring catalogue", "https://shop.example.com/catalogue/spring?from=mail", ["shop", "mail"]],
  ["jobs", "Open positions", "https://example.com/about/jobs", []],
  ["status", "Status of all services", "https://status.example.com/", ["team"]],
  ["talk", "Slides of the talk on caches", "https://slides.example.com/caches-that-tell-the-truth", ["talks"]],
  ["survey", "Survey of November", "https://forms.example.com/f/2026-11", ["mail"]],
  ["map", "How to find us", "https://maps.example.com/?q=52.52,13.405", []],
  ["news", "Newsletter", "https://example.com/newsletter/47", ["mail"]],
];
const VISITORS = [
  ["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36", "https://news.example/today"],
  ["Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0", "https://search.example/?q=larder"],
  ["Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1", "https://www.forum.example/t/1"],
  ["Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", ""],
];

let isLoaded = true;

// Low numbers are far more frequent than high ones, as with real keys.
const skewed = (count, power = 4) => Math.floor(count * Math.random() ** power);
const pause = (ms) => new Promise((wake) => setTimeout(wake, ms));

async function createLinks() {
  const links = LINKS.map(([slug, title, url, tags]) => ({ slug, title, url, tags }));
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${linksUrl}/api/links/batch`, { method: "POST", headers, body: JSON.stringify(links) });
  if (!response.ok) throw new Error(`the batch of links got ${response.status}: ${await response.text()}`);
}

async function redirects() {
  while (isLoaded) {
    const [agent, referer] = VISITORS[skewed(VISITORS.length)];
    await fetch(`${linksUrl}/${LINKS[skewed(LINKS.length)][0]}`, { redirect: "manual", headers: { "user-agent": agent, referer } });
    // A pace that a person can follow: the picture is not a benchmark.
    await pause(1 + skewed(4));
  }
}

async function apiRequests() {
  for (let n = 0; isLoaded; n += 1) {
    const path = n % 3 ? `/${LINKS[skewed(LINKS.length)][0]}` : `?limit=${20 + skewed(3)}`;
    await (await fetch(`${linksUrl}/api/links${path}`)).arrayBuffer();
    await pause(2);
  }
}

const productKey = () => `product:${skewed(KEYS, 2)}`;
const anyKey = () => (Math.random() < 0.4 ? `page:${LINKS[skewed(LINKS.length, 2)][0]}` : productKey());

// Pipelines of reads, half of which are followed by a write. The pace follows a wave, so that the curves show something.
function commands() {
  const [host, port] = resp.split(":");
  const socket = createConnection({ host, port: Number(port) });
  const send = () => {
    if (!isLoaded) return socket.end();
    let pipeline = "";
    for (let n = 0; n < 12; n += 1) {
      const key = anyKey();
      pipeline += `GET ${key}\r\n`;
      if (Math.random() < 0.5) pipeline += `SET ${key} ${"x".repeat(600)} EX ${Math.random() < 0.2 ? 2 : 600}\r\n`;
    }
    socket.write(`${pipeline}DEL ${productKey()}\r\n`);
    setTimeout(send, 2 + 2 * Math.sin(Date.now() / 9_000));
  };
  socket.on("data", () => {});
  return new Promise((done, fail) => {
    socket.on("connect", send).on("close", done).on("error", fail);
  });
}

async function useDashboard(page) {
  const part = (name) => page.getByRole("region", { name, exact: true });
  const list = (name, title) => part(name).locator(`h3:text-is("${title}") + dl`);

  await step("the figures move", async () => {
    await page.goto(adminUrl);
    const ratio = page.locator(".total", { hasText: "Hit ratio" }).locator(".figure");
    await ratio.filter({ hasText: /^\d/ }).waitFor();
    return ratio.textContent();
  });

  await step("what is used most is listed with the errors of its counts", async () => {
    for (const [name, title] of [
      ["links", "top slugs"], ["api responses", "top paths"], ["api responses", "top routes"],
      ["api responses", "top tags"], ["server", "top keys"],
    ]) await list(name, title).filter({ hasText: "±" }).waitFor();
    return list("api responses", "top routes").innerText();
  });

  await step("it is told why lookups missed", async () => {
    for (const cause of ["first", "expired", "evicted"]) {
      await list("server", "memory misses, by cause").filter({ hasText: cause }).waitFor({ timeout: 60_000 });
    }
  });

  await step("the period is switched and the updates are paused", async () => {
    const [hour, paused] = [page.getByRole("button", { name: "Hour" }), page.locator("#pause")];
    await press(page, hour);
    equal(await hour.getAttribute("aria-pressed"), "true", "the state of the button");
    await page.getByText("Charts: last hour.").waitFor();
    await press(page, paused);
    await page.getByRole("status").filter({ hasText: "paused" }).waitFor();
    await page.keyboard.press("p");
    await page.getByRole("status").filter({ hasText: "live" }).waitFor();
    await page.keyboard.press("h");
    await page.getByText("Charts: last 3 minutes.").waitFor();
  });

  await step("a part is purged, and that becomes an event", async () => {
    const form = part("api responses").locator("details");
    await press(page, form.locator("summary"));
    await tabTo(page, form.getByLabel("what"));
    equal(await form.getByLabel("what").inputValue(), "tag", "the target");
    await page.keyboard.press("p");
    equal(await form.getByLabel("what").inputValue(), "prefix", "the target after its first letter");
    equal(await page.locator("#pause").getAttribute("aria-pressed"), "false", "whether the page is paused");
    for (const _ of ["uri", "tag"]) await page.keyboard.press("ArrowUp");
    equal(await form.getByLabel("what").inputValue(), "tag", "the target");
    await type(page, form.getByLabel("target"), "links");
    await type(page, form.getByLabel("token"), "wrong");
    await page.keyboard.press("Enter");
    await form.getByText("401: the admin token is missing or wrong").waitFor();
    await type(page, form.getByLabel("token"), process.env.TOKEN);
    await press(page, form.getByRole("button", { name: "Purge" }));
    await form.getByText("Purged.").waitFor();
    await part("Events").getByText('purged tag "links"').waitFor();
    await look(page, "dashboard-purge");
    await press(page, form.locator("summary"));
  });

  await step("every state is clear in every width and scheme", async () => {
    await pause(Math.max(0, LOAD_MS - performance.now()));
    await look(page, "dashboard");
  });

  await step("pictures are taken", async () => {
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.evaluate(() => {
      document.activeElement.blur();
      window.scrollTo(0, 0);
    });
    await pause(1_500);
    await picture(page, "overview");
    await picture(part("server"), "misses");
  });
}

// The page with figures that a running Larder has rarely.
async function useFigures(page) {
  const now = Date.now() / 1000;
  const events = [
    { at: now - 86_400, part: "shop", text: "of yesterday" },
    { at: now, part: "shop", text: "of now" },
  ];
  // What the page would have seen in the minute before it was opened: the same as now.
  const activity = (tier, counts) => ({ part: "shop", tier, hits: 0, misses: 0, failures: 0, unreadable: 0, operations: 0, ...counts });
  const tiersBefore = [
    activity("memory", { hits: 150, misses: 50, operations: 200 }),
    activity("redis", { failures: 75, operations: 75 }),
    activity("origin", { operations: 50 }),
  ];
  const intervals = Array.from({ length: 12 }, (_, n) => ({ ended_at: now - 60 + 5 * n, seconds: 5, tiers: tiersBefore }));
  let [seconds, started, isEnding] = [0, now - 100, false];
  await page.route("**/api/history?*", (route) => {
    if (isEnding) {
      // The page asks the new server for figures and records at once. It was paused for so long that the new one has run
      // for longer than the one before had, when the page saw that last.
      [started, isEnding] = [now - 1, false];
      return route.fulfill({ status: 500, json: {} });
    }
    const after = Number(new URL(route.request().url()).searchParams.get("after"));
    const json = { now, last: events.length, intervals: after ? [] : intervals, events: events.slice(after) };
    return route.fulfill({ json });
  });
  await page.route("**/api/stats", (route) => {
    seconds += 1;
    // Redis is down: of ten lookups that miss in memory, one fails and nine are not sent, and five writes are not sent either.
    const none = { hit: 0, miss: 0, error: 0, skipped: 0, unreadable: 0 };
    const tiers = [
      { tier: "memory", lookups: { ...none, hit: 30 * seconds, miss: 10 * seconds }, operations: {} },
      { tier: "redis", lookups: { ...none, error: seconds, skipped: 14 * seconds }, operations: {} },
      { tier: "origin", lookups: {}, operations: { load: 10 * seconds, failure: 0 } },
    ];
    const shop = { part: "shop", kind: "cache", state: "running", restarts: 0, can_purge: false, tiers, reasons: {}, figures: [] };
    route.fulfill({ json: { version: 1, server: { version: "0", started_at: started, uptime_seconds: seconds }, parts: [shop] } });
  });

  await step("lookups that Redis does not answer go to the origin", async () => {
    await page.goto(adminUrl);
    const figure = (title) => page.locator(".total", { hasText: title }).locator(".figure");
    await figure("To the origin").filter({ hasText: /^\d/ }).waitFor();
    equal(await figure("Hit ratio").textContent(), "75.0%", "the hit ratio");
    const rate = Number.parseFloat(await figure("To the origin").textContent());
    if (!(rate > 0)) throw new Error(`${rate} lookups per second go to the origin`);
    const ratios = await page.evaluate(async () => {
      const { ALL, curve } = await import("/samples.js");
      return curve(ALL).ratio.map(([, ratio]) => ratio).filter((ratio) => ratio !== null);
    });
    if (ratios.length < 13) throw new Error(`the line has ${ratios.length} points`);
    equal([...new Set(ratios)].join(), "0.75", "the line of the hit ratio before and after the page was opened");
  });

  await step("events of another day have their date", async () => {
    const time = (text) => page.locator(".events li", { hasText: text }).locator("time");
    await time("of now").waitFor();
    const [whole, short] = await page.evaluate((ms) => {
      const date = new Date(ms);
      return [date.toLocaleString(), date.toLocaleTimeString()];
    }, (now - 86_400) * 1000);
    equal(await time("of yesterday").textContent(), whole, "the time of yesterday");
    equal(await time("of now").textContent(), short, "the time of now, which is the same time of day");
    await look(page, "dashboard-events");
  });

  await step("a restarted server tells its events once", async () => {
    // It has more of them than the one before had, so that the number that the page has is one of its own.
    events.splice(0, 2, ...["first", "second", "third"].map((text) => ({ at: now, part: "shop", text: `the ${text} of the new` })));
    isEnding = true;
    await page.locator(".events li", { hasText: "the first of the new" }).waitFor();
    for (let n = 0; n < 2; n += 1) await page.waitForResponse("**/api/history?*");
    const texts = await page.locator(".events li span").allTextContents();
    equal(texts.join(), "the third of the new,the second of the new,the first of the new,of now,of yesterday", "the events");
  });
}

// The page with names and counts that nobody has foreseen.
async function useOddNames(page) {
  const [long, markup] = ["averylongname".repeat(20), "<script>throw new Error('markup')</script>"];
  const tier = (name, counts) => ({ tier: name, lookups: {}, operations: {}, ...counts });
  const top = [long, "مفتاح", "\u202edrawkcab", "\ufffd", "\ufffd", "", "😀"];
  const part = (name, more) => ({ part: name, kind: "cache", state: "running", restarts: 0, can_purge: false, tiers: [], reasons: {}, figures: [], ...more });
  const parts = (seconds) => [
    part(markup, {
      restarts: 1e12, last_failure: long, can_purge: true, purge_targets: ["tag", "all"], notes: { coherence: long },
      tiers: [
        tier("memory", { lookups: { hit: 2e12 * seconds, miss: 0 }, entries: 1e12, bytes: 1e15, capacity_bytes: 1e16 }),
        tier(long, { operations: { not_found: 1 }, entries: 0, bytes: 0, capacity_bytes: 0 }),
      ],
      top: { keys: top.map((name, n) => ({ name, count: 1e12 - n, error: 1e9 })) },
      figures: [
        { name: long, unit: "count", total: false, value: 1, help: "" },
        { name: "age", unit: "seconds", total: false, value: 1, help: "One." },
        { name: "age", unit: "seconds", total: false, value: null, help: "Not a number." },
      ],
    }),
    part(long, { state: "stopped" }),
  ];
  const now = Date.now() / 1000;
  const events = [{ at: now, part: long, text: `${markup} ${long}` }];
  let seconds = 0;
  await page.route("**/api/history?*", (route) => route.fulfill({ json: { now, last: 1, intervals: [], events: events.splice(0) } }));
  await page.route("**/api/stats", (route) => {
    seconds += 1;
    route.fulfill({ json: { version: 1, server: { version: "0", started_at: now, uptime_seconds: 1e9 }, parts: parts(seconds) } });
  });

  await step("names of any kind are text, and no name makes the page wider", async () => {
    await page.goto(adminUrl);
    const shown = page.getByRole("region", { name: markup, exact: true });
    await page.locator(".total", { hasText: "Operations" }).locator(".figure").filter({ hasText: "T/s" }).waitFor();
    equal((await shown.locator('h3:text-is("top keys") + dl dt').allTextContents()).join(), top.map((name) => name || "(empty)").join(), "the keys");
    await shown.getByText("not found 1", { exact: true }).waitFor();
    equal((await shown.locator(".figures dd").allTextContents()).join(), "1,1.00s,–", "the figures");
    await look(page, "dashboard-odd-names");
  });

  await step("a part can be purged by what it has", async () => {
    await page.locator("details summary").click();
    equal((await page.getByLabel("what").locator("option").allTextContents()).join(), "tag,all", "the targets");
  });
}

async function useLinks(page) {
  await step("the most visited link tells where its visits come from", async () => {
    await page.goto(linksUrl);
    await tabTo(page, page.getByTestId("order"));
    await page.keyboard.press("ArrowDown");
    const first = page.getByTestId("link").first();
    await page.locator('li[data-slug="docs"]').waitFor();
    await page.waitForFunction(() => document.querySelector("li[data-slug]").dataset.slug === "docs");
    await picture(page, "links");
    await press(page, first.getByTestId("details"));
    await first.getByTestId("dimension-referrers").getByText("news.example").waitFor();
    await look(page, "link");
    await picture(first, "link");
  });
}

await main(async (browser) => {
  await createLinks();
  const load = Promise.all([redirects(), redirects(), apiRequests(), commands()]);
  load.catch((error) => failures.push(`the load ended: ${error.message}`));
  // The browser reports the refused purge, which is a step, as an error.
  await useDashboard(await open(browser, { deviceScaleFactor: 1 }, /status of 401/));
  await useLinks(await open(browser, { viewport: { width: 1000, height: 760 } }));
  isLoaded = false;
  await load;
  await useFigures(await open(browser, { timezoneId: "UTC" }, /status of 500/));
  await useOddNames(await open(browser));
});
