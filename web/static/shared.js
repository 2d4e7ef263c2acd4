// What several pages use: colours of the sheet, the statement handed to the SQL page, the grant of this visitor.
const HANDED = "polychrome.statement";

export function palette() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  return { ink: value("--ink"), soft: value("--soft"), line: value("--line"), series: [1, 2, 3, 4, 5, 6, 7, 8].map((n) => value(`--c${n}`)) };
}

export function putStatement(sql) { sessionStorage.setItem(HANDED, sql); }

export function takeStatement() {
  const sql = sessionStorage.getItem(HANDED);
  sessionStorage.removeItem(HANDED);
  return sql;
}

export const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";

// The grant lives in this page's memory alone and is asked for anew before it ends.
let grant = null;
export async function token() {
  if (grant && grant.expires_at_ms - Date.now() > 15_000) return grant.token;
  const response = await fetch("/pages/grant", { method: "POST", headers: { "x-csrf-token": meta("csrf-token") } });
  if (response.status === 401) { location.assign("/login"); throw new Error("not logged in"); }
  if (!response.ok) throw new Error(`no grant: the server answered ${response.status}`);
  grant = await response.json();
  return grant.token;
}
export function forgetToken() { grant = null; }
