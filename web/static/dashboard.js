// Tiles load by themselves, each with its own statement; charts are drawn from the same rows as the tables.
import { Chart } from "./vendor/charts.js";
import { palette, putStatement } from "./shared.js";

const AT_ONCE = 2; // statements in flight from one page: the first figures come first, and others have their turn

async function load(tile) {
  try {
    const response = await fetch(tile.dataset.source ?? `/dashboard/tiles/${tile.dataset.tile}`, { headers: { accept: "application/json" } });
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    const { html, chart } = await response.json();
    tile.querySelector(".tile-body").innerHTML = html; // rendered and escaped by the server
    if (chart) draw(tile.querySelector("canvas"), chart);
  } catch (error) {
    tile.querySelector(".tile-body").textContent = `This tile could not be loaded: ${error.message}.`;
  }
  tile.removeAttribute("aria-busy");
}

function draw(canvas, { kind, horizontal, labels, series }) {
  const colours = palette();
  canvas.hidden = false;
  new Chart(canvas, {
    type: kind,
    data: { labels, datasets: series.map(({ name, values }, i) => ({ label: name, data: values, backgroundColor: colours.series[i], borderColor: colours.series[i] })) },
    options: {
      animation: false, indexAxis: horizontal ? "y" : "x", maintainAspectRatio: false,
      plugins: { legend: { display: series.length > 1, labels: { color: colours.ink, boxWidth: 12 } } },
      scales: {
        x: { stacked: true, ticks: { color: colours.soft, maxRotation: 0, autoSkip: true }, grid: { color: colours.line } },
        y: { stacked: true, ticks: { color: colours.soft }, grid: { color: colours.line } },
      },
    },
  });
}

for (const link of document.querySelectorAll("[data-statement]")) {
  link.addEventListener("click", () => putStatement(link.dataset.statement));
}
const waiting = [...document.querySelectorAll("[data-tile]")];
async function work() { while (waiting.length) await load(waiting.shift()); }
await Promise.all(Array.from({ length: AT_ONCE }, work));
