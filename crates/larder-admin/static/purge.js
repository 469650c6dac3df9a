// Purging a part from the page. The token stays in this page: it is neither stored nor part of an address.

import { el } from "/elements.js";

/** What the input of each target asks for. */
const PLACEHOLDERS = {
  tag: "a tag, such as products",
  uri: "http://host/path?query",
  prefix: "http://host/path/",
  principal: "a user, such as user-1",
  all: "",
};

let token = "";

async function purge(part, kind, target, soft) {
  // The browser would refuse to send it, with a message that is of no use.
  if (/[^\x21-\x7e]/.test(token)) return "This is no admin token: it has 64 hexadecimal digits.";
  const body = JSON.stringify({ part, [kind]: kind === "all" ? true : target, ...(soft && { soft }) });
  const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
  const response = await fetch("/api/purge", { method: "POST", headers, body });
  if (response.ok) return "Purged.";
  const { error } = await response.json();
  return `${response.status}: ${error}`;
}

function field(label, input) {
  return el("label", "", label, input);
}

/** A form that opens on request. */
export function purgeForm(part) {
  const kind = el("select", "");
  for (const name of part.purge_targets) kind.append(new Option(name, name));
  const target = el("input", "");
  const secret = el("input", "");
  Object.assign(secret, { type: "password", autocomplete: "off", placeholder: "in the file admin-token" });
  const result = el("output", "");
  result.setAttribute("role", "status");
  const button = el("button", "", "Purge");
  button.type = "submit";
  const soft = el("input", "");
  soft.type = "checkbox";
  soft.title = "What is purged becomes stale instead: it is served while it is refreshed, or validated, where that is allowed.";
  const fields = [field("what", kind), field("target", target), ...(part.soft_purges ? [field("soft", soft)] : [])];
  const form = el("form", "", ...fields, field("token", secret), button, result);
  const choose = () => {
    target.placeholder = PLACEHOLDERS[kind.value] ?? "";
    target.parentElement.hidden = kind.value === "all";
    target.required = kind.value !== "all";
  };
  kind.addEventListener("change", choose);
  choose();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    token = secret.value.trim() || token;
    result.textContent = "…";
    result.textContent = await purge(part.part, kind.value, target.value, soft.checked).catch(() => "The server does not respond.");
  });
  return el("details", "purge", el("summary", "", "Purge"), form);
}
