// What the scripts have in common: steps, the keyboard, and what a state of a page looks like to a person and to axe.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const TIMEOUT_MS = 15_000;
// Every width in every scheme.
const LOOKS = [[390, "light"], [390, "dark"], [1440, "light"], [1440, "dark"]];

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const folder = process.env.SCREENSHOTS;
/** What was wrong, in the order in which it was found. */
export const failures = [];

/** A step depends on the steps before it: the first failure ends the run. */
export async function step(name, work) {
  try {
    const detail = await work();
    console.log(`ok    ${name}${detail ? `: ${detail}` : ""}`);
  } catch (error) {
    console.log(`FAIL  ${name}: ${String(error.message ?? error).split("\n").slice(0, 3).join(" ")}`);
    throw error;
  }
}

export function equal(actual, expected, what) {
  if (actual !== expected) throw new Error(`${what} is ${JSON.stringify(actual)}, expected ${JSON.stringify(expected)}`);
}

/** Starts the browser, runs `work` with it, and exits: with status 0 if no step has failed and no page had an error. */
export async function main(work) {
  const args = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"];
  // Chromium refuses to sandbox itself for root.
  if (process.getuid?.() === 0) args.push("--no-sandbox");
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args });
  let status = 0;
  try {
    await work(browser);
    await step("no page has errors", async () => {
      if (failures.length) throw new Error(`${failures.length} errors`);
    });
  } catch (error) {
    if (!failures.length) console.log(`      ${String(error.message ?? error).split("\n")[0]}`);
    for (const failure of failures) console.log(`      ${failure}`);
    status = 1;
  }
  await browser.close();
  process.exit(status);
}

/** A page whose errors are failures, but for messages of the console that are expected. */
export async function open(browser, options = {}, expected = /$^/) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 }, ...options });
  context.setDefaultTimeout(TIMEOUT_MS);
  const page = await context.newPage();
  page.on("pageerror", (error) => failures.push(`an error: ${error.message}`));
  page.on("console", (message) => {
    const isFailure = ["error", "warning"].includes(message.type()) && !expected.test(message.text());
    if (isFailure) failures.push(`on the console: ${message.text()}`);
  });
  return page;
}

/** Pictures of a state, and what axe finds in it, in every width and scheme. */
export async function look(page, name) {
  const before = page.viewportSize();
  for (const [width, colorScheme] of LOOKS) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    for (const { id, nodes } of violations) {
      const found = nodes.slice(0, 2).map((node) => `${node.html} ${node.failureSummary}`).join("; ");
      failures.push(`axe in ${name} at ${width} ${colorScheme}: ${id}: ${found}`);
    }
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (overflow > 0) failures.push(`${name} is ${overflow} pixels wider than its window of ${width}`);
    await picture(page, `${name}-${width}-${colorScheme}`, { fullPage: true });
  }
  await page.setViewportSize(before);
  await page.emulateMedia({ colorScheme: "light" });
}

/** A picture of a page or of an element, if SCREENSHOTS names a folder for it. */
export async function picture(of, name, options = {}) {
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await of.screenshot({ path: join(folder, `${name}.png`), ...options });
}

/** Moves the focus with the Tab key until it is on an element, and fails if it cannot get there. */
export async function tabTo(page, target) {
  for (let count = 0; count < 80; count += 1) {
    // Found anew each time: the element may have been replaced.
    if (await target.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error("the Tab key does not reach the element");
}

export async function press(page, target, key = "Enter") {
  await tabTo(page, target);
  await page.keyboard.press(key);
}

export async function type(page, target, text) {
  await tabTo(page, target);
  await page.keyboard.press("Control+a");
  await page.keyboard.type(text);
}
