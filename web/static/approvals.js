// The list of waiting calls is asked anew while the page is seen; a form that somebody is filling in is left alone.
const list = document.getElementById("waiting");
const EVERY_MS = 2000;

async function refresh() {
  if (document.hidden || list.contains(document.activeElement)) return;
  const response = await fetch(list.dataset.list);
  if (response.redirected || !response.ok) return;
  const html = await response.text();
  if (html !== list.dataset.seen) { list.innerHTML = html; list.dataset.seen = html; } // rendered and escaped by the server
}
setInterval(() => refresh().catch(() => {}), EVERY_MS);
