// Signs in to the page of a shortener that requires a token, and signs out again.
//
//   CHROMIUM=/usr/bin/chromium SCREENSHOTS=out TOKEN=larder_… READ_TOKEN=larder_… node sign-in.mjs http://127.0.0.1:8080
//
// Prints one line per step. The exit status is 0 if all steps passed, otherwise 1. SCREENSHOTS, if set, is the folder for
// pictures of each state, light and dark, at two widths.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const STEP_TIMEOUT_MS = 15_000;
const url = process.argv[2];
const { CHROMIUM, SCREENSHOTS, TOKEN, READ_TOKEN } = process.env;
if (!url || !CHROMIUM || !TOKEN || !READ_TOKEN) {
  console.error("usage: CHROMIUM=… TOKEN=… READ_TOKEN=… node sign-in.mjs LINKS_URL");
  process.exit(2);
}

const failures = [];

async function step(name, work) {
  try {
    await work();
    console.log(`ok    ${name}`);
  } catch (error) {
    console.log(`FAIL  ${name}: ${String(error.message ?? error).split("\n")[0]}`);
    throw error;
  }
}

async function pictures(page, name) {
  if (!SCREENSHOTS) return;
  mkdirSync(SCREENSHOTS, { recursive: true });
  for (const width of [390, 1440]) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.screenshot({ path: join(SCREENSHOTS, `${name}-${width}-${colorScheme}.png`), fullPage: true });
    }
  }
}

// A page that violates its content security policy or throws an error has failed, even if it looks right.
function watch(page) {
  page.on("pageerror", (error) => failures.push(`an error on ${page.url()}: ${error.message}`));
  page.on("console", (message) => {
    // The browser reports a refused request as an error; this script causes such requests on purpose.
    if (message.type() === "error" && !/status of 40[13]/.test(message.text())) failures.push(message.text());
  });
  return page;
}

async function run(browser) {
  const context = await browser.newContext();
  context.setDefaultTimeout(STEP_TIMEOUT_MS);
  const page = watch(await context.newPage());
  const token = page.getByTestId("token-input");
  const hidden = async (...names) => {
    for (const name of names) await page.getByTestId(name).waitFor({ state: "hidden" });
  };

  await step("the page shows only the sign-in form", async () => {
    await page.goto(url);
    await token.waitFor();
    await hidden("create-form", "links", "empty", "sign-out");
    if (!(await token.evaluate((node) => node === document.activeElement))) throw new Error("the field has no focus");
    await pictures(page, "sign-in");
  });

  await step("a wrong token is refused beside the field", async () => {
    await token.fill("larder_wrong");
    await page.keyboard.press("Enter");
    await page.getByTestId("sign-in-error").waitFor();
    await pictures(page, "sign-in-refused");
  });

  await step("a token with the scope read shows links but cannot change them", async () => {
    await token.fill(READ_TOKEN);
    await page.keyboard.press("Enter");
    await page.getByTestId("link").waitFor();
    await hidden("sign-in", "create-form");
    await page.getByTestId("details").click();
    await hidden("edit", "delete");
    await pictures(page, "signed-in-read");
  });

  await step("scripts cannot read the session, and it survives a reload", async () => {
    if ((await page.evaluate(() => document.cookie)) !== "") throw new Error("the cookie is readable");
    if ((await page.evaluate(() => localStorage.length + sessionStorage.length)) !== 0) throw new Error("the page stored data");
    await page.reload();
    await page.getByTestId("link").waitFor();
  });

  await step("signing out hides the links", async () => {
    await page.getByTestId("sign-out").click();
    await token.waitFor();
    await hidden("create-form", "links", "sign-out");
  });

  await step("a token with the scope write creates and deletes links", async () => {
    await token.fill(TOKEN);
    await page.getByTestId("sign-in-button").click();
    await page.getByTestId("url-input").fill("https://example.com/signed-in");
    await page.getByTestId("create-button").click();
    await page.getByTestId("result").waitFor();
    await pictures(page, "signed-in-write");
    const row = page.getByTestId("link").first();
    await row.getByTestId("details").click();
    await row.getByTestId("delete").click();
    await page.getByTestId("confirm-delete").click();
    await page.getByTestId("link").nth(1).waitFor({ state: "detached" });
    await page.getByTestId("toast").waitFor();
  });

  await step("signing out withdraws the offer to undo", async () => {
    await page.getByTestId("sign-out").click();
    await token.waitFor();
    if (await page.getByTestId("toast").isVisible()) throw new Error("the deleted link is still named");
    await token.fill(TOKEN);
    await page.keyboard.press("Enter");
    await page.getByTestId("link").waitFor();
  });

  await step("the sign-in form returns when the session ends elsewhere", async () => {
    await context.clearCookies();
    await token.waitFor();
    await hidden("create-form", "links");
    if ((await page.getByTestId("link").count()) !== 0) throw new Error("links are still in the page");
  });

  await step("no page has errors", async () => {
    if (failures.length) throw new Error(failures.join("; "));
  });
}

let status = 1;
const args = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
// Chromium refuses to sandbox itself for root.
if (process.getuid?.() === 0) args.push("--no-sandbox");
const browser = await chromium.launch({ executablePath: CHROMIUM, args });
try {
  await run(browser);
  status = 0;
} catch {
  // The failed step has printed its error.
} finally {
  await browser.close();
}
process.exit(status);
