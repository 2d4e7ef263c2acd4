// The search page: the question goes from here to the Query edge under the visitor's own grant.
import { forgetToken, meta, token } from "./shared.js";

const SEARCH = `${meta("query-edge")}/polychrome.search.v1.SearchService/Search`;
const FACETS = { provider: ["Source", "providers"], role: ["Speaker", "roles"], tool: ["Tool", "tools"], conversation: ["Conversation", "sessions"] };
const BOXES = ["q", "scope", "since", "workspace", "file", "events"];
const LIMIT = 20, FACET_MAX = 12;
const at = (id) => document.getElementById(id);
const encoder = new TextEncoder(), decoder = new TextDecoder();
let chosen = {}, asked = null, cursor = null, turn = 0;

function request() {
  const filters = Object.fromEntries(Object.entries(chosen).map(([field, value]) => [field, [value]]));
  if (at("since").value) filters.since = at("since").value;
  if (at("workspace").value.trim()) filters.workspaces = [at("workspace").value.trim()];
  if (at("file").value.trim()) filters.files = [at("file").value.trim()];
  return { query: at("q").value, content_scope: at("scope").value, events: at("events").value === "1", filters, limit: LIMIT, facets: true };
}

async function send(body) {
  const once = async () => fetch(SEARCH, { method: "POST", headers: { authorization: `Bearer ${await token()}`, "content-type": "application/json" }, body: JSON.stringify(body) });
  let response = await once();
  if (response.status === 401) { forgetToken(); response = await once(); }
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.hint ? `${answer.message} — ${answer.hint}` : answer.message);
  return answer;
}

async function search({ more = false } = {}) {
  const mine = ++turn;
  if (!more) asked = request();
  if (!asked.query.trim() && !Object.keys(asked.filters).length) { say("Write a word, or choose a filter."); return; }
  say("Searching…");
  try {
    const answer = await send(more ? { ...asked, cursor } : asked);
    if (mine !== turn) return; // a later question was asked meanwhile
    if (!more) { at("results").replaceChildren(); showFacets(answer.facets ?? {}); showChosen(); keepAddress(); }
    at("results").append(...answer.results.map(hit));
    cursor = answer.window.next_cursor ?? answer.next_cursor ?? null;
    at("more").hidden = !(answer.window.more_available && cursor);
    const fallback = answer.fallback ? ` · ${answer.effective_mode} only (${answer.fallback.replaceAll("_", " ")})` : "";
    say(`${at("results").children.length} shown of ${answer.matching_chunks ?? 0} matching parts · ${answer.freshness.outcome} ${answer.freshness.published_at?.slice(0, 19) ?? ""}${fallback}`);
  } catch (error) { say(error.message, "bad"); }
}

// Ranges are UTF-8 bytes of the event's text; the snippet begins at start_byte.
function snippet({ text, start_byte: start, highlights, cut_before: before, cut_after: after }) {
  const bytes = encoder.encode(text), parts = document.createElement("p");
  parts.className = "snippet";
  let from = 0;
  const plain = (end) => parts.append(visible(decoder.decode(bytes.subarray(from, end))));
  if (before) parts.append("… ");
  for (const [begin, end] of highlights) {
    plain(begin - start);
    const mark = document.createElement("mark");
    mark.textContent = visible(decoder.decode(bytes.subarray(begin - start, end - start)));
    parts.append(mark);
    from = end - start;
  }
  plain(bytes.length);
  if (after) parts.append(" …");
  return parts;
}

const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

function hit(found) {
  const item = document.createElement("li"), head = document.createElement("div"), link = document.createElement("a"), said = document.createElement("span");
  item.className = "hit"; head.className = "toolbar";
  link.href = `/conversations/${found.partition}?at=${found.position}#p${found.position}`;
  link.textContent = [found.kind, found.tool, found.role].filter(Boolean).join(" · ");
  said.textContent = [found.title, found.provider, found.occurred_at?.slice(0, 19).replace("T", " "), `score ${found.retrieval_score}`, found.further_matches ? `${found.further_matches} more in it` : ""].filter(Boolean).join(" · ");
  said.className = "status";
  const place = document.createElement("code");
  place.textContent = found.citation; place.className = "push";
  head.append(link, said, place); item.append(head, snippet(found.snippet));
  return item;
}

function showFacets(facets) {
  at("facets").replaceChildren(...Object.entries(FACETS).flatMap(([name, [title, field]]) => {
    const values = Object.entries(facets[name] ?? {}).sort((a, b) => b[1] - a[1]).slice(0, FACET_MAX);
    if (!values.length) return [];
    const heading = document.createElement("h2"), list = document.createElement("ul");
    heading.textContent = title;
    for (const [value, count] of values) {
      const line = document.createElement("li"), button = document.createElement("button");
      button.type = "button"; button.className = "link"; button.textContent = `${value} (${count})`;
      button.addEventListener("click", () => { chosen[field] = value; search(); });
      line.append(button); list.append(line);
    }
    return [heading, list];
  }));
}

function showChosen() {
  at("chosen").replaceChildren(...Object.entries(chosen).map(([field, value]) => {
    const button = document.createElement("button");
    button.type = "button"; button.textContent = `${field}: ${value} ✕`;
    button.addEventListener("click", () => { delete chosen[field]; search(); });
    return button;
  }));
}

function say(message, tone = "") { at("status").textContent = message; at("status").className = `status ${tone}`; }

// The question stands in the fragment: it can be kept and shared, and browsers never send it to a server.
function keepAddress() {
  const boxes = BOXES.map((id) => [id, at(id).value]).filter(([, value]) => value);
  history.replaceState(null, "", `#${new URLSearchParams([...boxes, ...Object.entries(chosen)])}`);
}

function takeAddress() {
  const kept = new URLSearchParams(location.hash.slice(1));
  chosen = Object.fromEntries(Object.values(FACETS).map(([, field]) => [field, kept.get(field)]).filter(([, value]) => value));
  for (const id of BOXES) {
    at(id).value = kept.get(id) ?? "";
    if (at(id).selectedIndex === -1) at(id).selectedIndex = 0; // the link names a choice that this page does not have
  }
  if ([...kept.keys()].length) search();
}

function move(step) {
  const links = [...document.querySelectorAll(".hit a")], now = links.indexOf(document.activeElement);
  links[Math.min(Math.max(now + step, 0), links.length - 1)]?.focus();
}

at("ask").addEventListener("submit", (event) => { event.preventDefault(); search(); });
at("more").addEventListener("click", () => search({ more: true }));
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); at("q").focus(); }
  if (event.key === "j") move(1);
  if (event.key === "k") move(-1);
});
window.addEventListener("hashchange", takeAddress);
takeAddress();
