// The page of the shortener: create links, list them, see their visits. Text is inserted as text only, never as HTML.
"use strict";

const PAGE_LINKS = 50;
const CHART_DAYS = 30;
const DAY_MS = 86_400_000;
// The server's response cache keeps a list for a second; polling faster would return the same list.
const REFRESH_MS = 2_000;
const SESSION_PATH = "/api/session";

const byId = (id) => document.getElementById(id);
const number = new Intl.NumberFormat();
const rows = new Map();
let nextCursor = null;
let searchText = "";

// Talking to the API

class ApiFailure extends Error {
  constructor(message, field, rule) {
    super(message);
    this.field = field;
    // The server's message about the field, for display after its name.
    this.rule = rule;
  }
}

async function call(method, path, body) {
  const headers = method === "GET" ? {} : { "Content-Type": "application/json" };
  let response;
  try {
    response = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  } catch {
    throw new ApiFailure("The service cannot be reached. Is it still running?");
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  if (response.status === 401 && path !== SESSION_PATH) showSignIn();
  const answer = await response.json().catch(() => ({}));
  const { field, message } = answer.error ?? { message: `the service answered with status ${response.status}` };
  throw new ApiFailure(`${message[0].toUpperCase()}${message.slice(1)}.`, field, message);
}

function listPath(after) {
  const query = new URLSearchParams({ limit: PAGE_LINKS });
  if (after) query.set("after", after);
  if (searchText) query.set("q", searchText);
  return `/api/links?${query}`;
}

// Signing in: the token is exchanged for a cookie that scripts cannot read, and is kept nowhere

// Shows the controls that the session allows; if a session is required and there is none, only the sign-in.
function showSession(session) {
  const signedOut = session.required && !session.scope;
  document.body.classList.toggle("signed-out", signedOut);
  document.body.classList.toggle("read-only", session.scope === "read");
  byId("sign-in").hidden = !signedOut;
  byId("sign-out").hidden = !session.scope;
  return !signedOut;
}

function showSignIn() {
  if (!showSession({ required: true, scope: null }) && !byId("sign-in").contains(document.activeElement)) byId("token").focus();
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  // The links on the page belong to the session that ended.
  rows.clear();
  byId("list").replaceChildren();
  byId("result").hidden = true;
  nextCursor = null;
}

async function signIn(event) {
  event.preventDefault();
  const form = event.currentTarget;
  const button = form.querySelector("button");
  const values = Object.fromEntries(new FormData(form));
  button.disabled = true;
  try {
    const session = await call("POST", SESSION_PATH, values);
    form.reset();
    showFormError(form, byId("sign-in-error"), null);
    showSession(session);
    await loadPage(true);
    byId(session.scope === "read" ? "search" : "url").focus();
  } catch (failure) {
    showFormError(form, byId("sign-in-error"), failure);
    form.elements.token.setAttribute("aria-invalid", "true");
    form.elements.token.select();
  } finally {
    button.disabled = false;
  }
}

async function signOut() {
  try {
    await call("DELETE", SESSION_PATH);
    showSignIn();
  } catch (failure) {
    showListError(failure);
  }
}

async function start() {
  // If this request fails, the list shows the error.
  const session = await call("GET", SESSION_PATH).catch(() => ({ required: false, scope: null }));
  if (!showSession(session)) return showSignIn();
  if (session.scope !== "read") byId("url").focus();
  await loadPage(true);
}

// Creating a link

const fieldNames = { url: "This address", slug: "This name", title: "This title" };

// Shows a failure and marks its field, which it returns; without a failure, clears both.
function showFormError(form, error, failure) {
  for (const input of form.querySelectorAll("input")) input.removeAttribute("aria-invalid");
  error.hidden = !failure;
  if (!failure) return null;
  const name = fieldNames[failure.field];
  error.textContent = name ? `${name} ${failure.rule}.` : failure.message;
  const input = name && form.elements[failure.field];
  if (!input) return null;
  input.setAttribute("aria-invalid", "true");
  return input;
}

function showCreateError(failure) {
  const error = byId("create-error");
  const input = showFormError(byId("create"), error, failure);
  if (!input) return;
  // Next to its field.
  if (input.id === "url") byId("options").before(error); else byId("options").after(error);
  if (input.id !== "url") byId("options").open = true;
  input.focus();
}

function valuesOf(form) {
  const values = Object.fromEntries(new FormData(form));
  // An address without a scheme almost always means https.
  if (/^[\w-]+(\.[\w-]+)+([/?#:]|$)/.test(values.url.trim())) values.url = `https://${values.url.trim()}`;
  return values;
}

async function createLink(event) {
  event.preventDefault();
  const form = event.currentTarget;
  const button = form.querySelector("button");
  const values = valuesOf(form);
  button.disabled = true;
  try {
    const link = await call("POST", "/api/links", values);
    showCreateError(null);
    form.reset();
    showResult(link);
    if (!searchText) upsertRow(link, null);
    showList();
  } catch (failure) {
    byId("result").hidden = true;
    showCreateError(failure);
  } finally {
    button.disabled = false;
  }
}

function showResult(link) {
  const result = byId("result");
  const anchor = byId("result-link");
  anchor.href = link.short_url;
  anchor.textContent = withoutScheme(link.short_url);
  byId("result-target").textContent = withoutScheme(link.url);
  resetCopy(byId("result-copy"));
  // Hidden first, so that the animation runs for a second link too.
  result.hidden = true;
  requestAnimationFrame(() => { result.hidden = false; });
}

// The list

// Updates the row of a link, or inserts it after another row, or at the top if there is none.
function upsertRow(link, previous) {
  let row = rows.get(link.slug);
  if (!row) {
    row = makeRow(link);
    rows.set(link.slug, row);
    if (previous) previous.after(row.element); else byId("list").prepend(row.element);
  }
  row.update(link);
  return row.element;
}

function makeRow(link) {
  const element = byId("row").content.firstElementChild.cloneNode(true);
  const find = (selector) => element.querySelector(selector);
  element.dataset.slug = link.slug;

  const anchor = find(".row-short a");
  const host = document.createElement("span");
  host.textContent = withoutScheme(link.short_url).slice(0, -link.slug.length);
  anchor.append(host, link.slug);
  anchor.href = link.short_url;
  find(".row-created").textContent = `Created ${new Date(link.created_at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" })}`;
  find(".copy").addEventListener("click", (event) => copy(event.currentTarget, link.short_url));
  find(".edit").addEventListener("click", () => openEditor(latest));
  find(".danger").addEventListener("click", () => deleteLink(link.slug));

  const toggle = find(".toggle");
  const details = find(".row-details");
  let shownVisits = null;
  let latest = link;
  toggle.addEventListener("click", () => {
    const open = details.hidden;
    details.hidden = !open;
    toggle.setAttribute("aria-expanded", String(open));
    if (open) drawChart(element, link.slug);
  });

  function update(fresh) {
    latest = fresh;
    find(".row-title").textContent = fresh.title;
    const target = find(".row-url");
    target.textContent = withoutScheme(fresh.url);
    target.title = fresh.url;
    if (fresh.visits === shownVisits) return;
    const visits = find(".row-visits");
    visits.classList.toggle("bump", shownVisits !== null);
    visits.classList.toggle("none", fresh.visits === 0);
    visits.firstElementChild.textContent = number.format(fresh.visits);
    visits.lastElementChild.textContent = fresh.visits === 1 ? "visit" : "visits";
    shownVisits = fresh.visits;
    if (!details.hidden) drawChart(element, link.slug);
  }
  find(".row-visits").addEventListener("animationend", (event) => event.currentTarget.classList.remove("bump"));
  return { element, update };
}

async function loadPage(restart) {
  const asked = searchText;
  const button = byId("more");
  button.disabled = true;
  try {
    const page = await call("GET", listPath(restart ? null : nextCursor));
    if (asked !== searchText) return;
    if (restart) {
      rows.clear();
      byId("list").replaceChildren();
    }
    let previous = byId("list").lastElementChild;
    for (const link of page.links) previous = upsertRow(link, previous);
    nextCursor = page.next;
    showListError(null);
    // A search examines some of the links at a time; a part without a match loads the next one without a click.
    if (page.links.length === 0 && page.next) return await loadPage(false);
  } catch (failure) {
    showListError(failure);
  } finally {
    button.disabled = false;
  }
  showList();
}

async function refresh() {
  if (document.hidden || document.body.classList.contains("signed-out") || document.querySelector("dialog[open]")) return;
  const asked = searchText;
  try {
    const page = await call("GET", listPath(null));
    if (asked !== searchText) return;
    let previous = null;
    for (const link of page.links) previous = upsertRow(link, previous);
    showListError(null);
    showList();
  } catch (failure) {
    showListError(failure);
  }
}

function showList() {
  const blank = rows.size === 0 && !searchText && byId("list-error").hidden;
  byId("empty").hidden = !blank;
  byId("links").hidden = blank;
  byId("nothing").hidden = rows.size > 0 || !searchText;
  byId("more").hidden = !nextCursor;
}

function showListError(failure) {
  if (document.body.classList.contains("signed-out")) failure = null;
  const error = byId("list-error");
  error.hidden = !failure;
  error.textContent = failure ? failure.message : "";
  if (failure) {
    byId("links").hidden = false;
    byId("empty").hidden = true;
  }
}

// Updating and deleting

function openEditor(link) {
  const form = byId("edit-form");
  form.dataset.slug = link.slug;
  byId("edit-slug").textContent = link.slug;
  form.elements.url.value = link.url;
  form.elements.title.value = link.title;
  showFormError(form, byId("edit-error"), null);
  byId("edit").showModal();
}

async function saveEdit(event) {
  event.preventDefault();
  const form = event.currentTarget;
  try {
    const link = await call("PATCH", `/api/links/${form.dataset.slug}`, valuesOf(form));
    rows.get(link.slug)?.update(link);
    if (byId("result-link").href === link.short_url) byId("result-target").textContent = withoutScheme(link.url);
    byId("edit").close();
  } catch (failure) {
    showFormError(form, byId("edit-error"), failure)?.focus();
  }
}

async function deleteLink(slug) {
  const dialog = byId("confirm");
  byId("confirm-slug").textContent = withoutScheme(`${location.origin}/${slug}`);
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((done) => dialog.addEventListener("close", done, { once: true }));
  if (dialog.returnValue !== "delete") return;
  try {
    await call("DELETE", `/api/links/${slug}`);
    rows.get(slug)?.element.remove();
    rows.delete(slug);
    if (byId("result-link").href.endsWith(`/${slug}`)) byId("result").hidden = true;
    showList();
  } catch (failure) {
    showListError(failure);
  }
}

// The chart of a link: one bar a day, today on the right

async function drawChart(element, slug) {
  let link;
  try {
    link = await call("GET", `/api/links/${slug}`);
  } catch {
    return;
  }
  const byDate = new Map(link.days.map((day) => [day.date, day.visits]));
  const dates = Array.from({ length: CHART_DAYS }, (_, i) =>
    new Date(Date.now() - (CHART_DAYS - 1 - i) * DAY_MS).toISOString().slice(0, 10));
  const counts = dates.map((date) => byDate.get(date) ?? 0);
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
  const make = (name, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const height = count === 0 ? 2 : Math.max(5, (count / highest) * 96);
  const bar = make("rect", { x: index * 10 + 1, y: 100 - height, width: 8, height, rx: 1 });
  if (count === 0) bar.classList.add("none");
  const title = make("title", {});
  title.textContent = `${dayName(date)}: ${number.format(count)}`;
  bar.append(title);
  return bar;
}

// The rest

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Browsers offer the clipboard on secure pages only; this older way works on plain HTTP as well.
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    button.focus();
  }
  setCopy(button, "#i-check", "Copied", true);
  setTimeout(() => resetCopy(button), 1_600);
}

function resetCopy(button) {
  setCopy(button, "#i-copy", "Copy", false);
}

function setCopy(button, icon, label, done) {
  button.classList.toggle("done", done);
  button.querySelector("use").setAttribute("href", icon);
  const text = button.querySelector("span");
  if (text) text.textContent = label;
}

const withoutScheme = (url) => url.replace(/^https?:\/\//, "");
const dayName = (date) => new Date(`${date}T00:00:00Z`).toLocaleDateString(undefined, { day: "numeric", month: "short", timeZone: "UTC" });

function search(event) {
  const text = event.currentTarget.value.trim();
  clearTimeout(search.timer);
  search.timer = setTimeout(() => {
    if (text === searchText) return;
    searchText = text;
    nextCursor = null;
    loadPage(true);
  }, 200);
}

byId("host-prefix").textContent = `${location.host}/`;
byId("create").addEventListener("submit", createLink);
byId("create").addEventListener("input", () => showCreateError(null));
byId("result-copy").addEventListener("click", (event) => copy(event.currentTarget, byId("result-link").href));
byId("edit-form").addEventListener("submit", saveEdit);
byId("edit-cancel").addEventListener("click", () => byId("edit").close());
byId("search").addEventListener("input", search);
byId("more").addEventListener("click", () => loadPage(false));
byId("sign-in-form").addEventListener("submit", signIn);
byId("sign-in-form").addEventListener("input", (event) => showFormError(event.currentTarget, byId("sign-in-error"), null));
byId("sign-out").addEventListener("click", signOut);
start();
setInterval(refresh, REFRESH_MS);
