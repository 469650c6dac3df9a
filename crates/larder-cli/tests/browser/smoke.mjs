// Uses the pages of a running Larder like a person: creates a link, follows it, and checks that the list counts the
// visit and the dashboard counts the redirects.
//
//   CHROMIUM=/usr/bin/chromium SCREENSHOTS=out node smoke.mjs http://127.0.0.1:8080 http://127.0.0.1:8081
//
// CHROMIUM is the browser to start; SCREENSHOTS, if set, is the folder for a picture of each page. Prints one line per
// step. The exit status is 0 if all steps passed, otherwise 1.

import { existsSync, mkdirSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { chromium } from "playwright-core";

const STEP_TIMEOUT_MS = 15_000;
const REDIRECTS = 25;
const MARK = "the target of the short link";

const [linksUrl, adminUrl] = process.argv.slice(2).map((url) => url.replace(/\/$/, ""));
if (!linksUrl || !adminUrl) {
  console.error("usage: node smoke.mjs LINKS_URL ADMIN_URL");
  process.exit(2);
}

const failures = [];

// A step depends on the steps before it: the first failure ends the run.
async function step(name, work) {
  try {
    const detail = await work();
    console.log(`ok    ${name}${detail ? `: ${detail}` : ""}`);
  } catch (error) {
    console.log(`FAIL  ${name}: ${String(error.message ?? error).split("\n")[0]}`);
    throw error;
  }
}

async function until(what, ask) {
  const end = Date.now() + STEP_TIMEOUT_MS;
  let last;
  while (Date.now() < end) {
    last = await ask();
    if (last.done) return last.value;
    await new Promise((wake) => setTimeout(wake, 100));
  }
  throw new Error(`${what} not reached within ${STEP_TIMEOUT_MS / 1000} s; last value: ${JSON.stringify(last.value)}`);
}

function browserPath() {
  const found = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
    .find((path) => path && existsSync(path));
  if (!found) throw new Error("no browser: set CHROMIUM to the path of a Chromium");
  return found;
}

async function picture(page, name) {
  const folder = process.env.SCREENSHOTS;
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}

async function startTarget() {
  const server = createServer((_, response) => {
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    response.end(`<!doctype html><title>Target</title><p id="mark">${MARK}</p>`);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { server, url: `http://127.0.0.1:${server.address().port}/landing?step=smoke` };
}

// A page that violates its content security policy or throws an error has failed, even if it looks right.
function watch(page) {
  page.on("pageerror", (error) => failures.push(`an error on ${page.url()}: ${error.message}`));
  page.on("console", (message) => {
    if (/Content Security Policy/i.test(message.text())) failures.push(`on ${page.url()}: ${message.text()}`);
  });
  return page;
}

// The number of redirects of the part "links", from the JSON.
async function counted() {
  const stats = await (await fetch(`${adminUrl}/api/stats`)).json();
  const part = stats.parts.find((one) => one.part === "links");
  if (!part) throw new Error(`no part "links" among ${stats.parts.map((one) => one.part).join(", ")}`);
  return part.tiers.find((tier) => tier.tier === "redirects").operations.found;
}

// The number of redirects that the page shows.
async function shown(part) {
  const text = await part.locator(".tier", { has: part.page().getByRole("heading", { name: "redirects" }) }).textContent();
  return Number(text.match(/found (\d+)/)?.[1]);
}

async function run(browser, target) {
  // A browser without a window counts as a bot, whose redirects are no visits.
  const userAgent = `Mozilla/5.0 (X11; Linux x86_64) Chrome/${browser.version()} Safari/537.36`;
  const context = await browser.newContext({ viewport: { width: 1100, height: 800 }, userAgent });
  context.setDefaultTimeout(STEP_TIMEOUT_MS);
  const page = watch(await context.newPage());
  const slug = `smoke-${Date.now().toString(36)}`;
  let shortUrl;

  await step("the links page opens", async () => {
    await page.goto(linksUrl);
    await page.getByTestId("create-form").waitFor();
    await picture(page, "1-links");
  });

  await step("a wrong address is refused beside the field", async () => {
    await page.getByTestId("url-input").fill("ftp://files.example.com/");
    await page.getByTestId("create-button").click();
    const error = page.getByTestId("create-error");
    await error.waitFor();
    await picture(page, "2-refused");
    const text = await error.textContent();
    if (!/http/.test(text)) throw new Error(`the message is ${JSON.stringify(text)}`);
    return text;
  });

  await step("a link is created on the page", async () => {
    await page.getByTestId("url-input").fill(target);
    await page.getByTestId("options").locator("summary").click();
    await page.getByTestId("slug-input").fill(slug);
    await page.getByTestId("title-input").fill("Smoke <b>test</b>");
    await page.getByTestId("create-button").click();
    const link = page.getByTestId("result-link");
    await link.waitFor();
    shortUrl = await link.getAttribute("href");
    await picture(page, "3-created");
    if (!shortUrl.endsWith(`/${slug}`)) throw new Error(`the short address is ${shortUrl}`);
    return shortUrl;
  });

  const row = page.locator(`[data-testid="link"][data-slug="${slug}"]`);

  await step("the list shows the link, with its title as text", async () => {
    await row.waitFor();
    const title = await row.getByTestId("title").textContent();
    if (title !== "Smoke <b>test</b>") throw new Error(`the title is ${JSON.stringify(title)}`);
  });

  await step("the short link leads to the target", async () => {
    const [landing] = await Promise.all([context.waitForEvent("page"), row.getByTestId("short-link").click()]);
    await landing.waitForLoadState();
    const text = await landing.locator("#mark").textContent();
    if (landing.url() !== target || text !== MARK) throw new Error(`it led to ${landing.url()}`);
    await landing.close();
  });

  await step("the list shows the visit without a reload", async () => {
    await until("one visit", async () => {
      const value = await row.getByTestId("visits").textContent();
      return { done: value === "1", value };
    });
    await picture(page, "4-visited");
  });

  await step("the dashboard counts further redirects", async () => {
    const dashboard = watch(await context.newPage());
    await dashboard.goto(adminUrl);
    const part = dashboard.locator('[data-part="links"], [aria-labelledby="part-links"]').first();
    await part.waitFor();
    const before = await counted();
    for (let n = 0; n < REDIRECTS; n += 1) {
      const answer = await fetch(shortUrl, { redirect: "manual" });
      if (answer.status !== 302) throw new Error(`redirect ${n} has status ${answer.status}`);
    }
    const after = before + REDIRECTS;
    await until(`${after} redirects in the JSON`, async () => {
      const value = await counted();
      return { done: value === after, value };
    });
    await until(`${after} redirects on the page`, async () => {
      const value = await shown(part);
      return { done: value === after, value };
    });
    const total = await dashboard.locator(".total", { hasText: "Hit ratio" }).locator(".figure").textContent();
    if (!/^\d/.test(total)) throw new Error(`the hit ratio of all parts is ${JSON.stringify(total)}`);
    await picture(dashboard, "5-dashboard");
    return `${before} before, ${after} after`;
  });

  await step("the deleted link is gone", async () => {
    await row.getByTestId("details").click();
    await row.getByTestId("delete").click();
    await page.getByTestId("confirm-delete").click();
    await row.waitFor({ state: "detached" });
    const answer = await fetch(shortUrl, { redirect: "manual" });
    if (answer.status !== 410) throw new Error(`the status is ${answer.status}`);
    await picture(page, "6-deleted");
  });

  await step("no page has errors", async () => {
    if (failures.length) throw new Error(failures.join("; "));
  });
}

let status = 1;
const target = await startTarget();
try {
  const args = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"];
  // Chromium refuses to sandbox itself for root.
  if (process.getuid?.() === 0) args.push("--no-sandbox");
  const browser = await chromium.launch({ executablePath: browserPath(), args });
  try {
    await run(browser, target.url);
    status = 0;
  } catch {
    // The failed step has printed its error.
  } finally {
    await browser.close();
  }
} catch (error) {
  console.log(`FAIL  ${String(error.message ?? error).split("\n")[0]}`);
}
target.server.close();
target.server.closeAllConnections();
process.exit(status);
