// The SQL page: the statement goes from here to the Query edge under the visitor's own grant.
import { Chart } from "./vendor/charts.js";
import * as cm from "./vendor/editor.js";
import { forgetToken, meta, palette, takeStatement, token } from "./shared.js";

const EXECUTE = `${meta("query-edge")}/polychrome.query.v1.QueryService/Execute`;
const DESCRIBE = `${meta("query-edge")}/polychrome.query.v1.QueryService/DescribeCatalog`;
const HISTORY = "polychrome.history", HISTORY_MAX = 30, SHOWN_MAX = 2000;
const KEYWORDS = "select from where group by order having limit offset as on and or not in is null like ilike between case when then else end join left right inner outer cross asof positional using union all distinct except intersect with recursive over partition qualify filter exclude replace columns pivot unpivot values unnest lateral exists true false desc asc nulls first last interval cast try_cast";
const at = (id) => document.getElementById(id);
let running = null, last = null, chart = null;

// --- the editor -----------------------------------------------------------------------------------------------
// It lives in a shadow root: its styles are constructed sheets there and need no exception in the policy.
const dialect = cm.SQLDialect.define({ keywords: KEYWORDS });
const language = new cm.Compartment();
const colours = cm.HighlightStyle.define([
  { tag: cm.tags.keyword, color: "var(--c1)", fontWeight: "600" }, { tag: cm.tags.string, color: "var(--c3)" },
  { tag: cm.tags.number, color: "var(--c2)" }, { tag: [cm.tags.lineComment, cm.tags.blockComment], color: "var(--soft)" },
]);
const theme = cm.EditorView.theme({
  "&": { color: "var(--ink)", background: "transparent", fontSize: "14px" },
  ".cm-content": { fontFamily: "ui-monospace, Menlo, Consolas, monospace", caretColor: "var(--ink)", minHeight: "8.5rem" },
  ".cm-gutters": { background: "transparent", color: "var(--soft)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { background: "transparent" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { background: "var(--mark) !important" },
  ".cm-tooltip": { background: "var(--raised)", color: "var(--ink)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent)", color: "var(--accent-ink)" },
});
const host = at("editor").attachShadow({ mode: "open" });
const view = new cm.EditorView({
  parent: host, root: host,
  state: cm.EditorState.create({
    doc: takeStatement() ?? "SELECT model, COUNT(*) AS calls\nFROM model_call\nGROUP BY model\nORDER BY calls DESC",
    extensions: [
      cm.Prec.highest(cm.keymap.of([{ key: "Mod-Enter", run: () => { run(); return true; } }])),
      cm.lineNumbers(), cm.history(), cm.bracketMatching(), cm.autocompletion(), cm.lintGutter(),
      cm.keymap.of([...cm.completionKeymap, ...cm.historyKeymap, ...cm.defaultKeymap]),
      cm.EditorView.contentAttributes.of({ "aria-label": "Statement" }), cm.EditorView.lineWrapping,
      language.of(cm.sql({ dialect })), cm.syntaxHighlighting(colours), theme,
    ],
  }),
});
const text = () => view.state.doc.toString();
const put = (sql) => { view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: sql } }); view.focus(); };

// --- asking ---------------------------------------------------------------------------------------------------
async function ask(url, body, accept, signal) {
  const send = async () => fetch(url, { method: "POST", signal, headers: { authorization: `Bearer ${await token()}`, "content-type": "application/json", accept }, body: JSON.stringify(body) });
  let response = await send();
  if (response.status === 401) { forgetToken(); response = await send(); }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  let detail = {};
  try { detail = await response.json(); } catch { /* not JSON: the status alone is told */ }
  return Object.assign(new Error(detail.message ?? `the edge answered ${response.status}`), detail);
}

async function run() {
  if (running) return;
  running = new AbortController();
  const sql = text(), rowLimit = Number(at("row-limit").value) || 1000;
  say("Running…"); clear(); buttons();
  try {
    const response = await ask(EXECUTE, { sql, row_limit: rowLimit }, "application/x-ndjson", running.signal);
    last = { sql, rowLimit, ...(await readFrames(response)) };
    show(last); remember(sql);
  } catch (error) {
    if (error.name === "AbortError") say("Stopped."); else fail(error);
  }
  running = null; buttons();
}

async function readFrames(response) {
  const answer = { columns: [], rows: [], trailer: null };
  for (const line of (await response.text()).split("\n")) {
    if (!line) continue;
    const frame = JSON.parse(line);
    if (frame.schema) answer.columns = frame.schema.columns ?? [];
    else if (frame.batch) answer.rows.push(...(frame.batch.rows ?? []));
    else if (frame.trailer) answer.trailer = frame.trailer;
    else if (frame.error) throw Object.assign(new Error(frame.error.message), frame.error);
  }
  if (!answer.trailer) throw new Error("the answer ended early: it is incomplete");
  return answer;
}

// --- showing --------------------------------------------------------------------------------------------------
function show({ columns, rows, trailer }) {
  const table = document.createElement("table"), head = table.createTHead().insertRow(), body = table.createTBody();
  const numbers = new Set(numeric({ columns, rows }));
  for (const [i, column] of columns.entries()) {
    const cell = document.createElement("th");
    cell.scope = "col"; if (numbers.has(i)) cell.className = "number"; cell.textContent = column.name; cell.title = column.type ?? "";
    head.append(cell);
  }
  for (const row of rows.slice(0, SHOWN_MAX)) {
    const line = body.insertRow();
    for (const value of row) {
      const cell = line.insertCell();
      if (value === null) { cell.className = "null"; cell.textContent = "NULL"; }
      else { cell.className = typeof value === "number" ? "number" : "cell"; cell.textContent = typeof value === "object" ? JSON.stringify(value) : String(value); }
    }
  }
  at("result").replaceChildren(table);
  const shown = rows.length > SHOWN_MAX ? `, the first ${SHOWN_MAX} shown here` : "";
  say(`${rows.length} row${rows.length === 1 ? "" : "s"}${shown} · ${trailer.elapsed_ms ?? "?"} ms · query ${trailer.query_id ?? ""}`);
  if (trailer.truncated) {
    at("truncated").textContent = `Truncated (${trailer.reason || "row limit"}): there is more than these ${rows.length} rows. Narrow the query, or COUNT(*).`;
    at("truncated").hidden = false;
  }
}

function fail(error) {
  const place = /line (\d+)[,:] ?(?:column|col) ?(\d+)/i.exec(error.message) ?? /(\d+):(\d+)/.exec(error.message);
  say(`${error.code ? error.code + ": " : ""}${error.message}${error.hint ? " — " + error.hint : ""}`, "bad");
  if (!place) return;
  const line = view.state.doc.line(Math.min(Number(place[1]), view.state.doc.lines));
  const from = Math.min(line.from + Math.max(Number(place[2]) - 1, 0), line.to);
  view.dispatch(cm.setDiagnostics(view.state, [{ from, to: Math.min(from + 1, line.to), severity: "error", message: error.message }]));
}

function clear() {
  at("truncated").hidden = true; at("result").replaceChildren(); at("chart").hidden = true; chart?.destroy(); chart = null; last = null;
  at("chart-toggle").setAttribute("aria-pressed", "false");
  view.dispatch(cm.setDiagnostics(view.state, []));
}

function say(message, tone = "") { at("status").textContent = message; at("status").className = `status ${tone}`; }

function buttons() {
  at("run").disabled = Boolean(running); at("stop").disabled = !running;
  at("csv").disabled = at("arrow").disabled = !last || Boolean(running);
  at("chart-toggle").disabled = !last?.rows.length || numeric(last).length === 0;
}

const numeric = ({ columns, rows }) => columns.map((_, i) => i).filter((i) => rows.some((row) => typeof row[i] === "number") && rows.every((row) => row[i] === null || typeof row[i] === "number"));

function toggleChart() {
  if (chart) { chart.destroy(); chart = null; at("chart").hidden = true; at("chart-toggle").setAttribute("aria-pressed", "false"); return; }
  const { columns, rows } = last, heights = numeric(last).slice(0, 8), colour = palette();
  const label = columns.findIndex((_, i) => !heights.includes(i));
  at("chart").hidden = false; at("chart-toggle").setAttribute("aria-pressed", "true");
  chart = new Chart(at("chart"), {
    type: "bar",
    data: { labels: rows.map((row, i) => (label < 0 ? i + 1 : String(row[label] ?? "NULL"))), datasets: heights.map((i, n) => ({ label: columns[i].name, data: rows.map((row) => row[i]), backgroundColor: colour.series[n] })) },
    options: { animation: false, plugins: { legend: { labels: { color: colour.ink } } }, scales: { x: { ticks: { color: colour.soft } }, y: { ticks: { color: colour.soft }, grid: { color: colour.line } } } },
  });
}

// --- downloads: CSV from the rows at hand, Arrow from the edge anew ------------------------------------------------
function csvCell(value) {
  if (value === null) return "";
  const plain = typeof value === "object" ? JSON.stringify(value) : String(value);
  const guarded = typeof value === "string" && /^[=+\-@\t\r]/.test(plain) ? `'${plain}` : plain; // a spreadsheet must not run it
  return /[",\n\r]/.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded;
}

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob); link.download = name; link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

at("csv").addEventListener("click", () => {
  const lines = [last.columns.map((column) => csvCell(column.name)), ...last.rows.map((row) => row.map(csvCell))].map((cells) => cells.join(","));
  save("result.csv", new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
});
at("arrow").addEventListener("click", async () => {
  try {
    const response = await ask(EXECUTE, { sql: last.sql, row_limit: last.rowLimit }, "application/vnd.apache.arrow.stream");
    save("result.arrows", await response.blob());
  } catch (error) { fail(error); }
});
at("run").addEventListener("click", run);
at("stop").addEventListener("click", () => running?.abort());
at("chart-toggle").addEventListener("click", toggleChart);
for (const button of document.querySelectorAll("[data-example]")) button.addEventListener("click", () => { put(button.dataset.example); run(); });

// --- the catalog: completion, and a list to read ----------------------------------------------------------------
function listCatalog(tables) {
  const list = document.createElement("div");
  for (const table of tables) {
    const item = document.createElement("details"), name = document.createElement("summary"), columns = document.createElement("ul");
    name.textContent = table.name; item.title = table.description ?? ""; columns.className = "facets";
    for (const column of table.columns ?? []) {
      const line = document.createElement("li");
      line.textContent = `${column.name} ${column.type}`; line.title = column.description ?? ""; line.className = "mono";
      columns.append(line);
    }
    item.append(name, columns); list.append(item);
  }
  at("catalog").replaceChildren(list);
}

async function loadCatalog() {
  try {
    const { tables = [] } = await (await ask(DESCRIBE, {}, "application/json")).json();
    const schema = Object.fromEntries(tables.map((table) => [table.name, (table.columns ?? []).map((column) => column.name)]));
    view.dispatch({ effects: language.reconfigure(cm.sql({ dialect, schema, upperCaseKeywords: true })) });
    listCatalog(tables);
  } catch (error) { at("catalog").textContent = `The catalog could not be loaded: ${error.message}`; }
}

// --- history: in this browser alone -------------------------------------------------------------------------------
function remember(sql) {
  const kept = [sql, ...recall().filter((other) => other !== sql)].slice(0, HISTORY_MAX);
  localStorage.setItem(HISTORY, JSON.stringify(kept)); listHistory(kept);
}
function recall() { try { return JSON.parse(localStorage.getItem(HISTORY)) ?? []; } catch { return []; } }
function listHistory(kept) {
  if (!kept.length) return;
  at("history").replaceChildren(...kept.map((sql) => {
    const line = document.createElement("li"), button = document.createElement("button");
    button.type = "button"; button.className = "link"; button.textContent = sql.replace(/\s+/g, " ").slice(0, 60); button.title = sql;
    button.addEventListener("click", () => put(sql)); line.append(button);
    return line;
  }));
}

listHistory(recall());
await loadCatalog();
