// Writes the TypeScript of what travels between page and gateway, from the
// documents that the gateway publishes.
import { readFileSync, writeFileSync } from "node:fs";
import { compile } from "json-schema-to-typescript";

const target = "packages/client/src/wire.gen.ts";

const load = (name, from) =>
  JSON.parse(readFileSync(new URL(`../internal/contract/${name}`, import.meta.url), "utf8").replaceAll(from, "#/$defs/"));
const frames = load("frames.schema.json", "#/$defs/");
const http = load("openapi.json", "#/components/schemas/");

// Beside a reference nothing may stand, or the compiler makes a type of its own
// for each place; what more a client may be sent is no part of its types.
function plain(s) {
  if (Array.isArray(s)) return s.map(plain);
  if (typeof s !== "object" || s === null) return s;
  if (typeof s.$ref === "string") return { $ref: s.$ref };
  const out = Object.fromEntries(Object.entries(s).map(([k, v]) => [k, plain(v)]));
  if (out.oneOf) delete out.required;
  if (out.oneOf) delete out.type;
  if (out.properties) {
    // A field whose schema says nothing is JSON of any kind.
    out.additionalProperties = false;
    if (out.anyOf) delete out.anyOf;
  }
  return out;
}

const $defs = plain({ ...http.components.schemas, ...frames.$defs });
const text = await compile({ $defs, title: "Wire", type: "object", additionalProperties: false }, "Wire", {
  bannerComment: "// Code generated from the documents of internal/contract by generate.mjs. DO NOT EDIT.",
  unreachableDefinitions: true,
  unknownAny: true,
  format: true,
  style: { printWidth: 120 },
});
const codes = Object.entries(frames["x-close-codes"]).map(([name, code]) => `export const CLOSE_${name.toUpperCase()} = ${code};`);
writeFileSync(target, `${text}\nexport const PROTOCOL = ${frames["x-protocol"]};\n${codes.join("\n")}\n`);
