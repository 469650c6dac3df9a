// The fields of a link's options, which the forms to create and to edit have in common.

// Inserts the fields into a form; errors of the form describe them.
export function insertOptionFields(form, errorId) {
  const fields = document.getElementById("option-fields").content.cloneNode(true);
  for (const input of fields.querySelectorAll("input")) {
    input.setAttribute("aria-describedby", [input.getAttribute("aria-describedby"), errorId].filter(Boolean).join(" "));
  }
  form.querySelector(".option-fields").append(fields);
}

const UNREADABLE = { expires_at: "is incomplete or does not exist", max_visits: "is not a number" };

// The first field whose text the browser cannot read, with a message; such a field has an empty value.
export function unreadableOption(form) {
  const field = Object.keys(UNREADABLE).find((name) => form.elements[name].validity.badInput);
  return field && { field, message: UNREADABLE[field] };
}

// The values as the API expects them. Empty fields are null, which removes a limit.
export function optionsOf(form) {
  const { tags, expires_at, max_visits, forward_query, crawlable } = form.elements;
  return {
    tags: tags.value.split(",").map((tag) => tag.trim()).filter(Boolean),
    expires_at: expires_at.value ? new Date(expires_at.value).getTime() : null,
    max_visits: max_visits.value ? Number(max_visits.value) : null,
    forward_query: forward_query.checked,
    crawlable: crawlable.checked,
  };
}

export function showOptions(form, link) {
  const { tags, expires_at, max_visits, forward_query, crawlable } = form.elements;
  tags.value = link.tags.join(", ");
  expires_at.value = link.expires_at === null ? "" : localTime(link.expires_at);
  max_visits.value = link.max_visits ?? "";
  forward_query.checked = link.forward_query;
  crawlable.checked = link.crawlable;
}

// The form of `datetime-local`: the local time without a zone.
function localTime(ms) {
  const offset = new Date(ms).getTimezoneOffset() * 60_000;
  return new Date(ms - offset).toISOString().slice(0, 16);
}

// What limits a link, in words; empty if nothing does.
export function limitsOf(link) {
  const facts = [];
  if (link.expires_at !== null) {
    const time = new Date(link.expires_at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    facts.push(link.expires_at <= Date.now() ? `expired ${time}` : `expires ${time}`);
  }
  if (link.max_visits !== null) {
    const max = new Intl.NumberFormat().format(link.max_visits);
    facts.push(link.visits >= link.max_visits ? `all ${max} visits used` : `at most ${max} visits`);
  }
  if (link.forward_query) facts.push("forwards the query");
  if (link.crawlable) facts.push("crawlable");
  return facts;
}

export const hasEnded = (link) =>
  (link.expires_at !== null && link.expires_at <= Date.now()) || (link.max_visits !== null && link.visits >= link.max_visits);
