// One page of all pictures of the run, a row for each state and a column for each look.
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { looks } from "./axe.ts";
import { artefacts } from "./place.ts";

const files = (): string[] => {
  try {
    return readdirSync(artefacts).filter((f) => f.endsWith(".png")).sort();
  } catch {
    return []; // no run yet
  }
};

/** Removes those of an earlier run. */
export function clear(): void {
  for (const f of files()) rmSync(join(artefacts, f));
}

/** Writes the page, after all tests. */
export default function index(): void {
  const have = new Set(files());
  if (have.size === 0) return;
  const states = [...new Set([...have].map((f) => looks.reduce((name, l) => name.replace(new RegExp(`-${l.name}\\.png$`), ""), f)))];
  const cell = (file: string) => (have.has(file) ? `<a href="${file}"><img loading="lazy" src="${file}" alt=""></a>` : "");
  const rows = states.map((s) => `<tr id="${s}"><th scope="row"><a href="#${s}">${s.replaceAll("-", " ")}</a></th>${looks.map((l) => `<td>${cell(`${s}-${l.name}.png`)}</td>`).join("")}</tr>`);
  writeFileSync(join(artefacts, "index.html"), `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Every state of every card</title>
<style>body{font:14px/1.4 sans-serif;margin:1rem}table{border-collapse:collapse}th,td{border:1px solid #bbb;padding:4px;vertical-align:top;text-align:left}thead th{position:sticky;top:0;background:#fff}th[scope=row]{width:10rem}img{display:block;max-height:26rem;max-width:30rem}</style>
<h1>${states.length} states, ${have.size} pictures</h1>
<table><thead><tr><th>state</th>${looks.map((l) => `<th>${l.name.replace("-", ", ")}, ${l.size.width} wide</th>`).join("")}</tr></thead>
<tbody>
${rows.join("\n")}
</tbody></table></html>
`);
}
