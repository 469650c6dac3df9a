// Puts a running Larder under load for some seconds and looks at its dashboard: the figures move, and a picture is taken.
//
//   CHROMIUM=/usr/bin/chromium SCREENSHOTS=out node dashboard.mjs http://127.0.0.1:8080 http://127.0.0.1:8081 127.0.0.1:6379
//
// LOAD_SECONDS sets how long, 12 by default: the charts show three minutes.
//
// Exit status 0 if the dashboard shows the load, 1 if not.

import { mkdirSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import { chromium } from "playwright-core";

const LOAD_MS = Number(process.env.LOAD_SECONDS ?? 12) * 1_000;
const LINKS = 200;
const KEYS = 5_000;

const [linksUrl, adminUrl, resp] = process.argv.slice(2).map((url) => url.replace(/\/$/, ""));
if (!resp) {
  console.error("usage: node dashboard.mjs LINKS_URL ADMIN_URL RESP_ADDRESS");
  process.exit(2);
}

// Low numbers are far more frequent than high ones, as with real keys.
const skewed = (count) => Math.floor(count * Math.random() ** 4);

async function createLinks() {
  const links = Array.from({ length: LINKS }, (_, n) => ({ url: `https://example.com/${n}`, slug: `load${n}` }));
  const response = await fetch(`${linksUrl}/api/links/batch`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(links),
  });
  if (!response.ok) throw new Error(`the batch of links got ${response.status}: ${await response.text()}`);
}

async function redirects(end) {
  for (let n = 0; Date.now() < end; n += 1) {
    await fetch(`${linksUrl}/load${skewed(LINKS)}`, { redirect: "manual" });
    if (n % 20 === 0) await fetch(`${linksUrl}/api/links?limit=20`);
    // A pace that a person can follow: the picture is not a benchmark.
    await new Promise((wake) => setTimeout(wake, 1 + skewed(3)));
  }
}

// Pipelines of 20 commands: a write for each four reads. The pace follows a wave, so that the curves show something.
function commands(end) {
  const [host, port] = resp.split(":");
  const socket = createConnection({ host, port: Number(port) });
  const send = () => {
    if (Date.now() >= end) return socket.end();
    let pipeline = "";
    for (let n = 0; n < 20; n += 1) {
      const key = `product:${skewed(KEYS)}`;
      pipeline += n % 5 === 0 ? `SET ${key} ${"x".repeat(64)} EX 60\r\n` : `GET ${key}\r\n`;
    }
    socket.write(pipeline);
    setTimeout(send, 2 + 2 * Math.sin(Date.now() / 900));
  };
  socket.on("data", () => {});
  return new Promise((done, fail) => {
    socket.on("connect", send).on("close", done).on("error", fail);
  });
}

async function look(browser, end) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, deviceScaleFactor: 1 });
  const page = await context.newPage();
  const failures = [];
  page.on("pageerror", (error) => failures.push(error.message));
  page.on("console", (message) => message.type() === "error" && failures.push(message.text()));
  await page.goto(adminUrl);
  await new Promise((wake) => setTimeout(wake, end - Date.now() - 1_000));
  const ratio = await page.locator(".total", { hasText: "Hit ratio" }).locator(".figure").textContent();
  if (!/^\d/.test(ratio)) failures.push(`the hit ratio is ${JSON.stringify(ratio)}`);
  const folder = process.env.SCREENSHOTS;
  if (folder) {
    mkdirSync(folder, { recursive: true });
    await page.screenshot({ path: join(folder, "dashboard.png") });
  }
  return { ratio, failures };
}

let status = 1;
try {
  await createLinks();
  const args = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"];
  // Chromium does not run its sandbox for root.
  if (process.getuid?.() === 0) args.push("--no-sandbox");
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args });
  try {
    const end = Date.now() + LOAD_MS;
    const [seen] = await Promise.all([look(browser, end), redirects(end), redirects(end), commands(end)]);
    seen.failures.forEach((failure) => console.log(`FAIL  ${failure}`));
    console.log(`the dashboard shows a hit ratio of ${seen.ratio}`);
    status = seen.failures.length ? 1 : 0;
  } finally {
    await browser.close();
  }
} catch (error) {
  console.log(`FAIL  ${String(error.message ?? error).split("\n")[0]}`);
}
process.exit(status);
