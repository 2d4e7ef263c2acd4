// The search page: the question goes from here to the Query edge under the visitor's own grant.
import { forgetToken, meta, token } from "./shared.js";

const SEARCH = `${meta("query-edge")}/polychrome.search.v1.SearchService/Search`;
const FACETS = { provider: ["Source", "providers"], role: ["Speaker", "roles"], tool: ["Tool", "tools"], conversation: ["Conversation", "sessions"] };
const BOXES = ["q", "scope", "since", "workspace", "file", "events"];
const LIMIT = 20, FACET_MAX = 12, NAME_MAX = 60;
const REASONS = {
  no_searchable_words: "no word that could be searched for",
  empty_query: "write a word, or name a file",
  no_such_conversation: "no conversation that you may read fits",
  semantic_incomplete: "by words only, some vectors are missing",
  semantic_unsupported_scope: "by words only, vectors cover transcripts",
  semantic_disabled: "", // it is an opt-in
};
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

async function search({ more = false, fresh = true } = {}) {
  const mine = ++turn;
  if (!more) asked = request();
  if (!asked.query.trim() && !asked.filters.files) { clear(); say("Write a word, or name a file: the other filters narrow what these find."); return; }
  say("Searching…");
  try {
    const answer = await send(more ? { ...asked, cursor } : asked);
    if (mine !== turn) return; // a later question was asked meanwhile
    if (!more) { clear(); showFacets(answer); showChosen(); keepAddress(fresh); }
    at("results").append(...answer.results.map(hit));
    cursor = answer.window.next_cursor ?? answer.next_cursor ?? null;
    at("more").hidden = !(answer.window.more_available && cursor);
    const remarks = [REASONS[answer.fallback] ?? answer.fallback, answer.query_truncated ? "the first words only" : "", answer.pool_truncated ? "more events match than are looked at" : ""];
    say([`${at("results").children.length} shown of ${answer.matching_chunks ?? 0} matching parts`, `${answer.freshness.outcome} ${time(answer.freshness.published_at)}`, ...remarks].filter(Boolean).join(" · "));
  } catch (error) {
    if (mine !== turn) return;
    if (!more) { clear(); showChosen(); } // what stands there would be of another question
    say(error.message, "bad");
  }
}

function clear() { at("results").replaceChildren(); at("facets").replaceChildren(); at("more").hidden = true; }

const time = (text) => (text ? `${text.slice(0, 19).replace("T", " ")}Z` : "");

// Ranges are UTF-8 bytes of the event's text; the snippet begins at start_byte.
function snippet({ text, start_byte: start, highlights, cut_before: before, cut_after: after }) {
  const bytes = encoder.encode(text), parts = document.createElement("p");
  parts.className = "snippet"; parts.dir = "auto";
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

// As search/query/display.py: what could move, hide or reverse others is shown, not obeyed.
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|(?<![^\u0000-\u007f])[\u200c\u200d]/g;
const visible = (text) => text.replace(UNSAFE, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

// Foreign text in a line of ours: its direction is its own.
function foreign(text) {
  const part = document.createElement("bdi");
  part.textContent = visible(text);
  return part;
}

function hit(found) {
  const item = document.createElement("li"), head = document.createElement("div"), link = document.createElement("a"), said = document.createElement("span");
  item.className = "hit"; head.className = "toolbar";
  link.href = `/conversations/${found.partition}?at=${found.position}#p${found.position}`;
  link.textContent = visible([found.kind, found.tool, found.role].filter(Boolean).join(" · "));
  if (found.title) said.append(foreign(found.title), " · ");
  said.append([found.provider, time(found.occurred_at), `score ${found.retrieval_score}`, found.further_matches ? `${found.further_matches} more in it` : ""].filter(Boolean).join(" · "));
  said.className = "status";
  const place = document.createElement("code");
  place.textContent = found.citation; place.className = "push";
  head.append(link, said, place); item.append(head, snippet(found.snippet));
  return item;
}

function showFacets({ facets = {}, results }) {
  const titles = Object.fromEntries(results.filter((found) => found.title).map((found) => [found.partition, found.title]));
  at("facets").replaceChildren(...Object.entries(FACETS).flatMap(([name, [title, field]]) => {
    const values = Object.entries(facets[name] ?? {}).sort((a, b) => b[1] - a[1]).slice(0, FACET_MAX);
    if (!values.length) return [];
    const heading = document.createElement("h2"), list = document.createElement("ul");
    heading.textContent = title;
    for (const [value, count] of values) {
      const line = document.createElement("li"), button = document.createElement("button");
      button.type = "button"; button.className = "link"; button.title = value;
      button.append(foreign(cut(titles[value] ?? value.replace(/^conv-(imp-)?/, ""))), ` (${count})`);
      button.addEventListener("click", () => { chosen[field] = value; search(); });
      line.append(button); list.append(line);
    }
    return [heading, list];
  }));
}

const cut = (text) => (text.length > NAME_MAX ? `${text.slice(0, NAME_MAX)}…` : text);

function showChosen() {
  at("chosen").replaceChildren(...Object.entries(chosen).map(([field, value]) => {
    const button = document.createElement("button");
    button.type = "button"; button.textContent = visible(`${field}: ${value} ✕`);
    button.addEventListener("click", () => { delete chosen[field]; search(); });
    return button;
  }));
}

function say(message, tone = "") { at("status").textContent = message; at("status").className = `status ${tone}`; }

// The question stands in the fragment: it can be kept and shared, and browsers never send it to a server. A fresh one is a
// step of its own: the back button goes to the question before.
function keepAddress(fresh) {
  const boxes = BOXES.map((id) => [id, at(id).value]).filter(([, value]) => value);
  const address = `#${new URLSearchParams([...boxes, ...Object.entries(chosen)])}`;
  if (fresh && location.hash && address !== location.hash) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

function takeAddress() {
  const kept = new URLSearchParams(location.hash.slice(1));
  chosen = Object.fromEntries(Object.values(FACETS).map(([, field]) => [field, kept.get(field)]).filter(([, value]) => value));
  for (const id of BOXES) {
    at(id).value = kept.get(id) ?? "";
    if (at(id).selectedIndex === -1) at(id).selectedIndex = 0; // the link names a choice that this page does not have
  }
  if ([...kept.keys()].length) search({ fresh: false });
  else { clear(); showChosen(); say(""); }
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
