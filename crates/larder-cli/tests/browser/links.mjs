// Uses every feature of the links page like a person who has a keyboard only, checks each state with axe, and takes
// pictures of it at two widths, light and dark.
//
//   CHROMIUM=/usr/bin/chromium SCREENSHOTS=out node links.mjs http://127.0.0.1:8080 options|deletion|editing|list
//
// The last word is the part of the page to use, on a service without links. Prints one line per step. The exit status is 0 if all steps passed, otherwise 1.

import { equal, look, main, open, press, step, tabTo, type } from "./page.mjs";

const url = process.argv[2]?.replace(/\/$/, "");
const part = process.argv[3];
const parts = { options: useOptions, deletion: useDeletion, editing: useEditing, list: useList };
if (!url || !Object.hasOwn(parts, part)) {
  console.error(`usage: node links.mjs LINKS_URL ${Object.keys(parts).join("|")}`);
  process.exit(2);
}

// A request of another client.
async function ask(method, path, body) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/api/links${path}`, { method, headers, body: body && JSON.stringify(body) });
  if (!response.ok) throw new Error(`${method} ${path} got ${response.status}: ${await response.text()}`);
  return response.status === 204 ? null : response.json();
}

async function useOptions(page) {
  const at = (id) => page.getByTestId(id);
  const row = (slug) => page.locator(`li[data-slug="${slug}"]`);

  await step("a link with all options is created", async () => {
    await page.goto(url);
    await type(page, at("url-input"), "https://example.com/spring?a=1");
    await press(page, at("options").locator("summary"));
    await type(page, at("slug-input"), "spring");
    await type(page, at("title-input"), "The spring catalogue");
    await type(page, at("create-form").getByTestId("tags-input"), "News, spring 2027");
    await at("create-form").getByTestId("expires-input").fill("2100-01-31T12:00");
    await type(page, at("create-form").getByTestId("max-visits-input"), "100");
    await press(page, at("create-form").getByTestId("forward-input"), "Space");
    await look(page, "links-options");
    await press(page, at("create-button"));
    await row("spring").waitFor();
    equal((await row("spring").getByTestId("tags").locator("button").allTextContents()).join("|"), "news|spring 2027", "the tags");
  });

  await step("a wrong option is reported beside the form", async () => {
    await type(page, at("url-input"), "https://example.com/");
    await type(page, at("create-form").getByTestId("tags-input"), "x".repeat(60));
    await press(page, at("create-button"));
    await at("create-error").waitFor();
    equal(await at("create-form").getByTestId("tags-input").getAttribute("aria-invalid"), "true", "the mark of the field");
    await type(page, at("create-form").getByTestId("tags-input"), "other");
    await press(page, at("create-button"));
    await at("create-error").waitFor({ state: "hidden" });
  });

  await step("the buttons of a row name its link", async () => {
    const other = await page.locator('li[data-slug]:not([data-slug="spring"])').getAttribute("data-slug");
    for (const slug of ["spring", other]) {
      const names = ["Copy the short link", "Details of", "QR code of", "Edit", "Forget visits of", "Delete"];
      for (const name of names) {
        const buttons = page.getByRole("button", { name: `${name} ${slug}`, exact: true, includeHidden: true });
        equal(await buttons.count(), 1, `the number of buttons ${name} ${slug}`);
      }
    }
  });

  await step("a visit appears without a reload", async () => {
    equal((await fetch(`${url}/spring?b=2`, { redirect: "manual" })).headers.get("location"), "https://example.com/spring?a=1&b=2", "the target");
    await row("spring").getByTestId("visits").filter({ hasText: "1" }).waitFor();
  });

  await step("details show chart, limits and QR code", async () => {
    await press(page, row("spring").getByTestId("details"));
    await row("spring").getByText("1 in 30 days").waitFor();
    await press(page, row("spring").getByTestId("show-qr"));
    const image = row("spring").locator("img");
    await image.evaluate((element) => element.decode());
    const waiting = page.waitForEvent("download");
    await press(page, row("spring").locator(".qr-png"));
    equal((await waiting).suggestedFilename(), "qr-spring.png", "the name of the file");
    await look(page, "links-details");
    return row("spring").getByTestId("limits").textContent();
  });

  await step("details show where visits come from", async () => {
    const headers = { "user-agent": await page.evaluate(() => navigator.userAgent.replace("Headless", "")), referer: "https://news.example/" };
    for (const more of [headers, { ...headers, referer: "" }, { "user-agent": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)" }]) {
      await fetch(`${url}/spring`, { headers: more, redirect: "manual" });
    }
    await page.waitForFunction(async () => (await (await fetch("/api/links/spring")).json()).dimensions.bots.length > 1, null, { polling: 200 });
    const referrer = row("spring").getByTestId("dimension-referrers").getByText("news.example");
    // A stored response about the link may be a second old.
    for (let tries = 0; tries < 5 && !(await referrer.isVisible()); tries++) {
      for (const _ of ["close", "open"]) await press(page, row("spring").getByTestId("details"));
      await page.waitForTimeout(600);
    }
    await referrer.waitFor();
    await row("spring").getByTestId("dimension-bots").getByText("Googlebot").waitFor();
    await look(page, "links-dimensions");
    return row("spring").getByTestId("dimension-browsers").innerText();
  });

  await step("a tag filters the list", async () => {
    await press(page, row("spring").getByTestId("tags").locator("button").first());
    await at("filter").waitFor();
    await page.waitForFunction(() => document.querySelectorAll("li[data-slug]").length === 1);
    await look(page, "links-filter");
    await press(page, at("filter"));
    await page.waitForFunction(() => document.querySelectorAll("li[data-slug]").length === 2);
  });

  await step("the most visited link comes first when that is chosen", async () => {
    const slugs = () => page.evaluate(() => [...document.querySelectorAll("li[data-slug]")].map((row) => row.dataset.slug));
    equal((await slugs()).at(-1), "spring", "the last link, which is the oldest");
    await tabTo(page, at("order"));
    await page.keyboard.press("ArrowDown");
    equal(await at("order").inputValue(), "visits", "the order");
    await page.waitForFunction(() => document.querySelector("li[data-slug]")?.dataset.slug === "spring");
    await look(page, "links-order");
    const other = (await slugs()).at(-1);
    // It overtakes the other without a reload.
    for (let count = 0; count < 9; count += 1) await fetch(`${url}/${other}`, { redirect: "manual" });
    await page.waitForFunction((slug) => document.querySelector("li[data-slug]")?.dataset.slug === slug, other, { timeout: 40_000 });
    await tabTo(page, at("order"));
    await page.keyboard.press("ArrowUp");
    await page.waitForFunction(() => document.querySelector("li[data-slug]")?.dataset.slug !== "spring");
  });

  await step("the details follow a link that is visited all the time", async () => {
    await press(page, row("spring").getByTestId("details"));
    const sum = row("spring").getByText(/^\d+ in 30 days$/);
    await sum.waitFor();
    const before = Number.parseInt(await sum.textContent(), 10);
    let visits = 0;
    const visiting = setInterval(() => {
      visits += 1;
      fetch(`${url}/spring`, { redirect: "manual" });
    }, 100);
    await page.waitForFunction((count) => {
      const text = document.querySelector('li[data-slug="spring"] .chart-sum').textContent;
      return Number.parseInt(text, 10) > count;
    }, before, { timeout: 8_000 }).finally(() => clearInterval(visiting));
    await row("spring").getByText(`${before + visits} in 30 days`).waitFor();
  });

  await step("visits are forgotten", async () => {
    await press(page, row("spring").getByTestId("forget"));
    await press(page, at("confirm-forget"));
    await row("spring").getByText("0 in 30 days").waitFor();
    await fetch(`${url}/spring`, { redirect: "manual" });
    await row("spring").getByText("1 in 30 days").waitFor();
  });

  await step("options are edited", async () => {
    await press(page, row("spring").getByTestId("edit"));
    const dialog = at("edit-dialog");
    equal(await dialog.getByTestId("expires-input").inputValue(), "2100-01-31T12:00", "the date in the dialog");
    await type(page, dialog.getByTestId("max-visits-input"), "1");
    await look(page, "links-edit");
    await press(page, dialog.getByTestId("edit-save"));
    await dialog.waitFor({ state: "hidden" });
    await row("spring").getByText("All 1 visits used", { exact: false }).waitFor();
    equal((await fetch(`${url}/spring`, { redirect: "manual" })).status, 410, "the status of a link that has ended");
  });

}

async function useDeletion(page) {
  const at = (id) => page.getByTestId(id);
  const row = (slug) => page.locator(`li[data-slug="${slug}"]`);

  await step("a link is created", async () => {
    await page.clock.install();
    await page.goto(url);
    await type(page, at("url-input"), "https://example.com/");
    await press(page, at("options").locator("summary"));
    await type(page, at("slug-input"), "spring");
    await press(page, at("create-button"));
    await press(page, row("spring").getByTestId("details"));
  });

  await step("a deletion is undone", async () => {
    await press(page, row("spring").getByTestId("delete"));
    await look(page, "links-confirm");
    await press(page, at("confirm-delete"));
    await row("spring").waitFor({ state: "detached" });
    await at("toast").waitFor();
    await look(page, "links-undo");
    // It stays while the focus is on it.
    await page.clock.fastForward(30_000);
    await tabTo(page, at("undo"));
    await press(page, at("undo"));
    await row("spring").waitFor();
  });

  await step("a deleted link is restored from its list", async () => {
    await press(page, row("spring").getByTestId("details"));
    await press(page, row("spring").getByTestId("delete"));
    await press(page, at("confirm-delete"));
    await row("spring").waitFor({ state: "detached" });
    await press(page, at("show-deleted"));
    equal(await at("show-deleted").textContent(), "Back to the links", "the button");
    equal(await at("show-deleted").getAttribute("aria-pressed"), null, "the state of a button whose text changes");
    await page.clock.fastForward(30_000);
    await at("toast").waitFor({ state: "hidden" });
    await press(page, row("spring").getByTestId("details"));
    await look(page, "links-deleted");
    await press(page, row("spring").getByTestId("restore"));
    await row("spring").waitFor({ state: "detached" });
    await press(page, at("show-deleted"));
    await row("spring").waitFor();
  });

  await step("links are exported", async () => {
    const waiting = page.waitForEvent("download");
    await press(page, at("export-csv"));
    equal((await waiting).suggestedFilename(), "links.csv", "the name of the file");
  });

  await step("the page of a deleted link is shown", async () => {
    await press(page, row("spring").getByTestId("details"));
    await press(page, row("spring").getByTestId("delete"));
    await press(page, at("confirm-delete"));
    await at("toast").waitFor();
    await page.goto(`${url}/spring`);
    await look(page, "links-gone");
  });
}

async function useEditing(page) {
  const at = (id) => page.getByTestId(id);
  const row = (slug) => page.locator(`li[data-slug="${slug}"]`);
  const dialog = at("edit-dialog");
  // In Berlin, the second 02:30 of the night in which summer time ends.
  const expiresAt = Date.parse("2027-10-31T01:30:15Z");

  await step("a number or date that the browser cannot read is reported", async () => {
    await page.goto(url);
    await type(page, at("url-input"), "https://example.com/");
    await press(page, at("options").locator("summary"));
    const refused = async (name, text, message) => {
      const field = at("create-form").getByTestId(name);
      await type(page, field, text);
      await press(page, at("create-button"));
      await at("create-error").filter({ hasText: message }).waitFor();
      equal(await field.getAttribute("aria-invalid"), "true", "the mark of the field");
    };
    await refused("max-visits-input", "1e", "This number");
    await type(page, at("create-form").getByTestId("max-visits-input"), "10");
    await refused("expires-input", "12", "This date");
    await look(page, "links-incomplete");
    equal((await ask("GET", "")).links.length, 0, "the number of links");
  });

  await step("an incomplete date removes no limit", async () => {
    await ask("POST", "", { url: "https://example.com/autumn", slug: "autumn", expires_at: expiresAt });
    await page.goto(url);
    await press(page, row("autumn").getByTestId("details"));
    await press(page, row("autumn").getByTestId("edit"));
    await press(page, dialog.getByTestId("expires-input"), "Backspace");
    await press(page, dialog.getByTestId("edit-save"));
    await at("edit-error").filter({ hasText: "This date" }).waitFor();
    await page.keyboard.press("Escape");
    equal((await ask("GET", "/autumn")).expires_at, expiresAt, "the expiry");
  });

  await step("an edit sends only what has changed", async () => {
    await press(page, row("autumn").getByTestId("edit"));
    await ask("PATCH", "/autumn", { title: "Set elsewhere", tags: ["elsewhere"] });
    await type(page, dialog.getByTestId("max-visits-input"), "5");
    await press(page, dialog.getByTestId("edit-save"));
    await dialog.waitFor({ state: "hidden" });
    const link = await ask("GET", "/autumn");
    equal(link.max_visits, 5, "the edited limit");
    equal(link.expires_at, expiresAt, "the expiry");
    equal(`${link.title}, ${link.tags}`, "Set elsewhere, elsewhere", "the title and the tags");
  });

  await step("an error of a proxy is reported by its status", async () => {
    const path = "**/api/links/autumn";
    await page.route(path, (route) => route.fulfill({ status: 502, json: { error: "Bad gateway" } }));
    await press(page, row("autumn").getByTestId("edit"));
    await type(page, dialog.getByTestId("max-visits-input"), "6");
    await press(page, dialog.getByTestId("edit-save"));
    await at("edit-error").filter({ hasText: "The service answered with status 502." }).waitFor();
    await page.keyboard.press("Escape");
    await page.unroute(path);
  });

  await step("an edit that changes nothing is saved", async () => {
    await press(page, row("autumn").getByTestId("edit"));
    await press(page, dialog.getByTestId("edit-save"));
    await dialog.waitFor({ state: "hidden" });
  });
}

async function useList(page) {
  const at = (id) => page.getByTestId(id);
  const row = (slug) => page.locator(`li[data-slug="${slug}"]`);
  const shown = () => page.evaluate(() => [...document.querySelectorAll("li[data-slug]")].map((item) => item.dataset.slug));
  // Too many links are in front of the button for the Tab key of this script.
  const more = () => at("more").press("Enter");
  // Links of another client; the last one is the newest.
  let created = 0;
  const create = (count) => {
    const links = Array.from({ length: count }, () => ({ url: "https://example.com/", slug: `link-${(created += 1)}` }));
    return ask("POST", "/batch", links);
  };
  const newest = (count, highest = created) => Array.from({ length: count }, (_, i) => `link-${highest - i}`);
  const untilShown = async (slugs) => {
    await page.waitForFunction((expected) => {
      return [...document.querySelectorAll("li[data-slug]")].map((item) => item.dataset.slug).join() === expected;
    }, slugs.join()).catch(async () => equal((await shown()).join(), slugs.join(), "the list"));
  };

  await step("the list of many new links continues with a button", async () => {
    await create(1);
    await page.goto(url);
    await row("link-1").waitFor();
    await create(119);
    await untilShown(newest(50));
    await more();
    await untilShown(newest(100));
    await more();
    await untilShown(newest(120));
    await at("more").waitFor({ state: "hidden" });
  });

  await step("a few new links come in front of all that are shown", async () => {
    await create(2);
    await untilShown(newest(122));
    equal(await at("more").isVisible(), false, "whether there is more");
  });

  await step("more new links than a page leave no gap", async () => {
    await create(60);
    await untilShown(newest(50));
    await more();
    await untilShown(newest(100));
  });

  await step("a link that is deleted elsewhere disappears", async () => {
    await ask("DELETE", `/link-${created - 2}`);
    const without = (slug, slugs) => slugs.filter((own) => own !== slug);
    await untilShown(without(`link-${created - 2}`, newest(100)));
    await tabTo(page, at("order"));
    await page.keyboard.press("ArrowDown");
    const two = newest(2);
    for (const [slug, visits] of [[two[0], 1], [two[1], 3], ["link-1", 2]]) {
      for (let count = 0; count < visits; count += 1) await fetch(`${url}/${slug}`, { redirect: "manual" });
    }
    const first = (slugs) => page.waitForFunction((expected) => {
      return [...document.querySelectorAll("li[data-slug]")].slice(0, 3).map((item) => item.dataset.slug).join() === expected;
    }, slugs.join(), { timeout: 40_000 });
    await first([two[1], "link-1", two[0]]);
    await ask("DELETE", `/${two[1]}`);
    await first(["link-1", two[0], `link-${created - 3}`]);
  });

  await step("changes that never pause are shown while they go on", async () => {
    await page.goto(url);
    await row(`link-${created}`).waitFor();
    // A page that was just opened loads its list once more after two seconds.
    await page.waitForFunction(() => performance.now() > 3_000);
    let [isOver, titles] = [false, 0];
    const changes = (async () => {
      while (!isOver) {
        await ask("PATCH", `/link-${created}`, { title: `title ${(titles += 1)}` });
        await new Promise((wake) => setTimeout(wake, 100));
      }
    })();
    // Without an event the list is loaded every 15 seconds.
    const shown = row(`link-${created}`).getByText(/^title \d+$/).waitFor({ timeout: 5_000 });
    await shown.finally(() => (isOver = true));
    await changes;
    return `after ${titles} changes`;
  });
}

await main(async (browser) => {
  // The browser reports a refused request, which is a step, as an error, and the page of a deleted link too.
  const timezoneId = part === "editing" ? "Europe/Berlin" : "Asia/Kathmandu";
  await parts[part](await open(browser, { timezoneId }, /status of (422|410|502)/));
});
