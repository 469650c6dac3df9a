// The page of the shortener: create links, list them, see their visits. Text is inserted as text only, never as HTML.
import { hasEnded, insertOptionFields, limitsOf, optionsOf, showOptions, unreadableOption } from "./options.js";
import { showVisits, timeZone } from "./visits.js";

const PAGE_LINKS = 50;
// While the events arrive, the list is loaded only for what other servers of the same database do. The server's response
// cache keeps a list for a second; polling faster than that would return the same list.
const REFRESH_MS = 2_000;
const REFRESH_WITH_EVENTS_MS = 15_000;
// From a change of another client to the request for the list.
const RELOAD_MS = 300;
const RESPONSE_TTL_MS = 1_100;
const UNDO_MS = 15_000;
const FOCUS_CHECK_MS = 1_000;
const SESSION_PATH = "/api/session";

const byId = (id) => document.getElementById(id);
const number = new Intl.NumberFormat();
const rows = new Map();
let nextCursor = null;
let searchText = "";
let tagFilter = "";
let showsDeleted = false;
let order = "newest";
// How many changes this page has requested: a list that was requested before one may be from before it.
let ownChanges = 0;

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
  if (method !== "GET") ownChanges += 1;
  if (response.ok) return response.status === 204 ? null : response.json();
  if (response.status === 401 && path !== SESSION_PATH) showSignIn();
  const answer = await response.json().catch(() => null);
  // A proxy in front of the service has errors of its own shape.
  const isOwn = typeof answer?.error?.message === "string";
  const { field, message } = isOwn ? answer.error : { message: `the service answered with status ${response.status}` };
  throw new ApiFailure(`${message[0].toUpperCase()}${message.slice(1)}.`, field, message);
}

function listPath(after) {
  const query = new URLSearchParams({ limit: PAGE_LINKS });
  if (after) query.set("after", after);
  if (searchText) query.set("q", searchText);
  if (tagFilter) query.set("tag", tagFilter);
  if (showsDeleted) query.set("deleted", "true");
  if (order !== "newest") query.set("sort", order);
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
  stopListening();
  // The links on the page belong to the session that ended.
  rows.clear();
  byId("list").replaceChildren();
  byId("result").hidden = true;
  byId("toast").hidden = true;
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
  listen();
}

// Creating a link

const fieldNames = {
  url: "This address", slug: "This name", title: "This title", tags: "A tag", expires_at: "This date", max_visits: "This number",
};

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

function checkReadable(form) {
  const unreadable = unreadableOption(form);
  if (unreadable) throw new ApiFailure(unreadable.message, unreadable.field, unreadable.message);
}

function valuesOf(form) {
  const { url, slug, title } = Object.fromEntries(new FormData(form));
  const values = { url, slug, title, ...optionsOf(form) };
  if (slug === undefined) delete values.slug;
  // An address without a scheme almost always means https.
  if (/^[\w-]+(\.[\w-]+)+([/?#:]|$)/.test(values.url.trim())) values.url = `https://${values.url.trim()}`;
  return values;
}

async function createLink(event) {
  event.preventDefault();
  const form = event.currentTarget;
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    checkReadable(form);
    const link = await call("POST", "/api/links", valuesOf(form));
    showCreateError(null);
    form.reset();
    showResult(link);
    if (!searchText && !tagFilter && !showsDeleted && order === "newest") upsertRow(link, null);
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
  row.listedVisits = link.visits;
  return row.element;
}

function dropRow(slug) {
  rows.get(slug)?.element.remove();
  rows.delete(slug);
}

// In the order of visits, rows move as they are visited; not while one has the focus, which it would lose.
const canMoveRows = () => order === "visits" && !byId("list").contains(document.activeElement);

function placeAfter(row, previous) {
  if (row.previousElementSibling === previous) return;
  if (previous) previous.after(row); else byId("list").prepend(row);
}

// What the buttons of a row do with its link, for those who hear one button without its row. The text on a button comes first.
const ROW_BUTTONS = [
  [".copy", "Copy the short link"], [".toggle", "Details of"], [".show-qr", "QR code of"], [".edit", "Edit"],
  [".forget", "Forget visits of"], [".danger", "Delete"], [".restore", "Restore"],
];

function makeRow(link) {
  const element = byId("row").content.firstElementChild.cloneNode(true);
  const find = (selector) => element.querySelector(selector);
  element.dataset.slug = link.slug;

  const anchor = find(".row-short a");
  const host = document.createElement("span");
  host.textContent = withoutScheme(link.short_url).slice(0, -link.slug.length);
  anchor.append(host, link.slug);
  anchor.href = link.short_url;
  for (const [selector, label] of ROW_BUTTONS) find(selector).setAttribute("aria-label", `${label} ${link.slug}`);
  find(".row-created").textContent = `Created ${new Date(link.created_at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" })}`;
  find(".copy").addEventListener("click", (event) => copy(event.currentTarget, link.short_url));
  find(".edit").addEventListener("click", () => openEditor(latest));
  find(".danger").addEventListener("click", () => deleteLink(link.slug));
  find(".forget").addEventListener("click", () => forgetVisits(link.slug));
  find(".restore").addEventListener("click", () => restoreLink(link.slug));
  find(".edit").hidden = find(".danger").hidden = find(".forget").hidden = find(".show-qr").hidden = Boolean(link.deleted_at);
  find(".restore").hidden = !link.deleted_at;
  find("figure").hidden = Boolean(link.deleted_at);
  element.classList.toggle("deleted", Boolean(link.deleted_at));
  find(".show-qr").addEventListener("click", (event) => toggleQr(event.currentTarget, find(".qr"), link));

  const toggle = find(".toggle");
  const details = find(".row-details");
  let shownVisits = null;
  let redraw = null;
  let isOutdated = false;
  let latest = link;
  toggle.addEventListener("click", () => {
    const open = details.hidden;
    details.hidden = !open;
    toggle.setAttribute("aria-expanded", String(open));
    if (open) draw();
  });
  // What the details show, as the server had it; visits since then are those of today.
  let drawn = null;
  async function draw() {
    drawn = (await visitsOf(element, link.slug)) ?? drawn;
    showDrawn();
  }
  function showDrawn() {
    if (drawn) showVisits(element, drawn, Math.max(0, latest.visits - drawn.visits));
  }

  function update(fresh) {
    latest = fresh;
    find(".row-title").textContent = fresh.title;
    const target = find(".row-url");
    target.textContent = withoutScheme(fresh.url);
    target.title = fresh.url;
    showTags(find(".row-tags"), fresh.tags);
    find(".row-limits").textContent = limitsOf(fresh).join(" · ");
    element.classList.toggle("ended", hasEnded(fresh));
    if (fresh.visits === shownVisits) return;
    const visits = find(".row-visits");
    visits.classList.toggle("bump", shownVisits !== null);
    visits.classList.toggle("none", fresh.visits === 0);
    visits.firstElementChild.textContent = number.format(fresh.visits);
    visits.lastElementChild.textContent = fresh.visits === 1 ? "visit" : "visits";
    shownVisits = fresh.visits;
    if (details.hidden) return;
    // Forgotten visits are fewer than those that were drawn.
    if (drawn && fresh.visits < drawn.visits) drawn = null;
    showDrawn();
    redrawLater();
  }
  // Visits leave the stored response about the link as it is, so an earlier request could show the old days. Further visits
  // do not postpone the drawing, which could last for ever: they cause another one.
  function redrawLater() {
    isOutdated = redraw !== null;
    if (isOutdated) return;
    redraw = setTimeout(() => {
      redraw = null;
      draw();
      if (isOutdated) redrawLater();
    }, RESPONSE_TTL_MS);
  }
  find(".row-visits").addEventListener("animationend", (event) => event.currentTarget.classList.remove("bump"));
  const row = { element, update, setVisits, listedVisits: link.visits };
  // Visits that were forgotten may move the link to a later page.
  function setVisits(visits) {
    row.listedVisits = Math.min(row.listedVisits, visits);
    update({ ...latest, visits });
  }
  return row;
}

// One button a tag, which shows the links with this tag.
function showTags(place, tags) {
  if (place.dataset.tags === tags.join()) return;
  place.dataset.tags = tags.join();
  place.replaceChildren(...tags.map((tag) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = tag;
    button.addEventListener("click", () => showOnly(tag));
    return button;
  }));
}

function toggleQr(button, figure, link) {
  figure.hidden = !figure.hidden;
  button.setAttribute("aria-expanded", String(!figure.hidden));
  const image = figure.querySelector("img");
  if (image.src) return;
  const path = `/api/links/${link.slug}/qr`;
  image.src = `${path}.svg`;
  image.alt = `QR code of ${withoutScheme(link.short_url)}`;
  for (const format of ["svg", "png"]) {
    // The service names the file.
    figure.querySelector(`.qr-${format}`).href = `${path}.${format}`;
  }
}

// Shows the links with a tag; with an empty one, those with any.
function showOnly(tag) {
  tagFilter = tag;
  byId("filter").hidden = !tag;
  byId("filter").firstElementChild.textContent = tag;
  byId("filter").setAttribute("aria-label", `Tag ${tag}: show all links again`);
  restartList();
}

function toggleDeleted() {
  showsDeleted = !showsDeleted;
  byId("links-title").textContent = showsDeleted ? "Deleted links" : "Links";
  byId("show-deleted").textContent = showsDeleted ? "Back to the links" : "Deleted links";
  restartList();
}

function changeOrder(event) {
  order = event.currentTarget.value;
  restartList();
}

function restartList() {
  nextCursor = null;
  loadPage(true);
}

const listState = () => [searchText, tagFilter, showsDeleted, order].join("\n");

async function loadPage(restart) {
  const asked = listState();
  const cursor = restart ? null : nextCursor;
  const button = byId("more");
  button.disabled = true;
  try {
    const page = await call("GET", listPath(cursor));
    // The list may have been shortened since.
    if (asked !== listState() || (!restart && cursor !== nextCursor)) return;
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

// Shows what has changed in the first page of the list, elsewhere too.
function updateFirstPage(page) {
  const listed = new Set(page.links.map((link) => link.slug));
  const last = page.links.at(-1);
  const isShown = (link) => rows.has(link.slug);
  // A full page of links that are new here: between them and the rows there may be further ones, which are not loaded.
  const hasGap = page.links.length === PAGE_LINKS && !(order === "newest" ? isShown(last) : page.links.some(isShown));
  const keepsFurther = page.next !== null && !hasGap;
  let previous = null;
  for (const link of page.links) {
    const row = upsertRow(link, previous);
    if (canMoveRows()) placeAfter(row, previous);
    previous = row;
  }
  // Whether the page would have the link of a row.
  const covers = (row) => {
    if (!last) return false;
    // The visits of an event may be newer than the page.
    if (order === "visits") return row.listedVisits > last.visits;
    return Boolean(previous.compareDocumentPosition(row.element) & Node.DOCUMENT_POSITION_PRECEDING);
  };
  for (const [slug, row] of rows) if (!listed.has(slug) && (!keepsFurther || covers(row))) dropRow(slug);
  if (!keepsFurther) nextCursor = page.next;
}

async function refresh() {
  if (document.hidden || document.body.classList.contains("signed-out") || document.querySelector("dialog[open]")) return;
  const asked = listState();
  const changesBefore = ownChanges;
  refreshedAt = Date.now();
  try {
    const page = await call("GET", listPath(null));
    if (asked !== listState() || changesBefore !== ownChanges) return;
    updateFirstPage(page);
    showListError(null);
    showList();
  } catch (failure) {
    showListError(failure);
  }
}

// Visits and changes as they happen. The browser connects again by itself, unless the session has ended.
function listen() {
  if (listen.source) return;
  const source = listen.source = new EventSource("/api/events");
  // Further changes do not postpone it, which could last until they pause: those after its request cause another one.
  const reload = () => {
    listen.timer ??= setTimeout(() => {
      listen.timer = null;
      refresh();
    }, RELOAD_MS);
  };
  source.addEventListener("visits", (event) => {
    for (const { slug, visits } of JSON.parse(event.data).links) rows.get(slug)?.setVisits(visits);
  });
  source.addEventListener("changed", reload);
  source.addEventListener("lagged", reload);
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) stopListening();
  });
}

function stopListening() {
  listen.source?.close();
  listen.source = null;
}

let refreshedAt = 0;

function refreshIfDue() {
  if (document.body.classList.contains("signed-out")) return;
  listen();
  const wait = listen.source?.readyState === EventSource.OPEN ? REFRESH_WITH_EVENTS_MS : REFRESH_MS;
  if (Date.now() - refreshedAt >= wait) refresh();
}

function showList() {
  const isFiltered = searchText || tagFilter || showsDeleted;
  const blank = rows.size === 0 && !isFiltered && byId("list-error").hidden && !document.body.classList.contains("has-deleted");
  byId("empty").hidden = !blank;
  byId("links").hidden = blank;
  byId("nothing").hidden = rows.size > 0 || !isFiltered;
  byId("nothing").textContent = showsDeleted ? "No deleted link." : "No link matches.";
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
  showOptions(form, link);
  openEditor.values = valuesOf(form);
  showFormError(form, byId("edit-error"), null);
  byId("edit").showModal();
}

// The fields whose values differ from those that the form was opened with. The others may have changed elsewhere since, and
// the field of a date shows neither its seconds nor its offset.
function changesIn(form) {
  const changes = Object.entries(valuesOf(form))
    .filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(openEditor.values[name]));
  return Object.fromEntries(changes);
}

async function saveEdit(event) {
  event.preventDefault();
  const form = event.currentTarget;
  try {
    checkReadable(form);
    const changes = changesIn(form);
    if (Object.keys(changes).length > 0) {
      const link = await call("PATCH", `/api/links/${form.dataset.slug}`, changes);
      rows.get(link.slug)?.update(link);
      if (byId("result-link").href === link.short_url) byId("result-target").textContent = withoutScheme(link.url);
    }
    byId("edit").close();
  } catch (failure) {
    showFormError(form, byId("edit-error"), failure)?.focus();
  }
}

// Asks in a dialog with the short link in bold; resolves to the value of the button.
async function ask(dialog, slug) {
  dialog.querySelector("b").textContent = withoutScheme(`${location.origin}/${slug}`);
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((done) => dialog.addEventListener("close", done, { once: true }));
  return dialog.returnValue;
}

async function forgetVisits(slug) {
  if (await ask(byId("forget"), slug) !== "forget") return;
  try {
    await call("DELETE", `/api/links/${slug}/visits`);
    rows.get(slug)?.setVisits(0);
  } catch (failure) {
    showListError(failure);
  }
}

async function deleteLink(slug) {
  if (await ask(byId("confirm"), slug) !== "delete") return;
  try {
    await call("DELETE", `/api/links/${slug}`);
    dropRow(slug);
    if (byId("result-link").href.endsWith(`/${slug}`)) byId("result").hidden = true;
    document.body.classList.add("has-deleted");
    showList();
    offerUndo(slug);
  } catch (failure) {
    showListError(failure);
  }
}

// A deletion can be undone here for some seconds, and for 30 days in the list of deleted links.
function offerUndo(slug) {
  const toast = byId("toast");
  toast.firstElementChild.textContent = `${slug} is deleted.`;
  toast.hidden = false;
  byId("toast-undo").onclick = () => restoreLink(slug);
  byId("toast-undo").focus();
  clearTimeout(offerUndo.timer);
  offerUndo.timer = setTimeout(withdrawUndo, UNDO_MS);
}

function withdrawUndo() {
  const toast = byId("toast");
  // Not under the focus, which would be lost.
  if (toast.contains(document.activeElement)) offerUndo.timer = setTimeout(withdrawUndo, FOCUS_CHECK_MS);
  else toast.hidden = true;
}

async function restoreLink(slug) {
  byId("toast").hidden = true;
  try {
    await call("POST", `/api/links/${slug}/restore`, {});
    restartList();
    byId("search").focus();
  } catch (failure) {
    showListError(failure);
  }
}

// The days and sources of a link's visits; null if there is no answer, and the next visit asks again.
async function visitsOf(element, slug) {
  // The link may have been deleted, or left the list.
  if (!element.isConnected || element.classList.contains("deleted")) return null;
  return call("GET", `/api/links/${slug}?${new URLSearchParams({ tz: timeZone() })}`).catch(() => null);
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

function search(event) {
  const text = event.currentTarget.value.trim();
  clearTimeout(search.timer);
  search.timer = setTimeout(() => {
    if (text === searchText) return;
    searchText = text;
    restartList();
  }, 200);
}

insertOptionFields(byId("create"), "create-error");
insertOptionFields(byId("edit-form"), "edit-error");
byId("filter").addEventListener("click", () => showOnly(""));
byId("show-deleted").addEventListener("click", toggleDeleted);
byId("host-prefix").textContent = `${location.host}/`;
byId("create").addEventListener("submit", createLink);
byId("create").addEventListener("input", () => showCreateError(null));
byId("result-copy").addEventListener("click", (event) => copy(event.currentTarget, byId("result-link").href));
byId("edit-form").addEventListener("submit", saveEdit);
byId("edit-cancel").addEventListener("click", () => byId("edit").close());
byId("search").addEventListener("input", search);
byId("order").addEventListener("change", changeOrder);
byId("more").addEventListener("click", () => loadPage(false));
byId("sign-in-form").addEventListener("submit", signIn);
byId("sign-in-form").addEventListener("input", (event) => showFormError(event.currentTarget, byId("sign-in-error"), null));
byId("sign-out").addEventListener("click", signOut);
start();
setInterval(refreshIfDue, REFRESH_MS);
