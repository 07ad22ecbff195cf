// Prints what a first visit loads, and what other pages load, and fails when either
// grew past the budget.
import { readFileSync, readdirSync } from "node:fs";
import { gzipSync } from "node:zlib";

const budget = 120 * 1024; // bytes of JavaScript after gzip
const elementsBudget = 124 * 1024; // of the one file for other pages, its styles included
const html = readFileSync("dist/index.html", "utf8");
let js = 0;
for (const name of readdirSync("dist/assets").sort()) {
  const size = gzipSync(readFileSync(`dist/assets/${name}`), { level: 9 }).length;
  const first = html.includes(name);
  if (first && name.endsWith(".js")) js += size;
  console.log(`${(size / 1024).toFixed(1).padStart(7)} kB gzip  ${name}${first ? "" : " (later)"}`);
}
const whole = readFileSync("dist/elements.js", "utf8");
if (/(^|;|\})import[\s{*"']|\bimport\(["'`]\.|from["']\.\//.test(whole)) {
  console.error("elements.js loads another file: pages that embed it have this one only");
  process.exit(1);
}
const elements = gzipSync(whole, { level: 9 }).length;
console.log(`${(elements / 1024).toFixed(1).padStart(7)} kB gzip  elements.js, for other pages, budget ${elementsBudget / 1024} kB`);
console.log(`${(js / 1024).toFixed(1).padStart(7)} kB gzip  JavaScript of the first load, budget ${budget / 1024} kB`);
if (js > budget || elements > elementsBudget) process.exit(1);
