// node build.mjs: bundles the vendored libraries; the output is committed, so a machine without npm serves the pages.
import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";

const common = { bundle: true, minify: true, format: "esm", target: "es2022", legalComments: "none", outdir: "static/vendor" };
await build({ ...common, entryPoints: ["vendor-src/charts.mjs", "vendor-src/editor.mjs"] });

const packages = ["chart.js", "@kurkle/color", "codemirror", "@codemirror/state", "@codemirror/view", "@codemirror/language",
  "@codemirror/autocomplete", "@codemirror/commands", "@codemirror/lang-sql", "@codemirror/lint", "@lezer/common", "@lezer/highlight",
  "@lezer/lr", "@marijn/find-cluster-break", "crelt", "style-mod", "w3c-keyname"];
const licences = packages.map((name) => {
  const folder = `node_modules/${name}`;
  const meta = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  let text = "";
  for (const file of ["LICENSE", "LICENSE.md"]) {
    try { text = readFileSync(`${folder}/${file}`, "utf8"); break; } catch { /* the other spelling */ }
  }
  return `${name} ${meta.version} (${meta.license})\n\n${text}`;
});
writeFileSync("static/vendor/LICENSES.txt", licences.join("\n----\n\n"));
