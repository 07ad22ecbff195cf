// What was filled in becomes JSON text here. Nothing is computed with: numbers
// go as they were typed, choices as the server wrote them.
import type { FormField } from "@banksman/client";

export type FieldValues = Record<string, string | string[]>;

export interface Filled {
  text: string;
  /** Fields that must be filled in and are not. */
  missing: string[];
  /** What cannot be written as JSON of the field's type, by field. The server checks the rest. */
  problems: Record<string, string>;
  empty: boolean;
}

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

export function formContent(fields: FormField[], values: FieldValues): Filled {
  const members: string[] = [];
  const missing: string[] = [];
  const problems = Object.create(null) as Record<string, string>; // a field may be called constructor
  for (const f of fields) {
    const json = valueOf(f, Object.hasOwn(values, f.name) ? values[f.name] : undefined);
    if (json === "") {
      if (f.required) missing.push(f.name);
    } else if (json === undefined) problems[f.name] = "must be a number such as 12 or 0.5";
    else members.push(`  ${JSON.stringify(f.name)}: ${json}`);
  }
  return { text: members.length === 0 ? "{}" : `{\n${members.join(",\n")}\n}`, missing, problems, empty: members.length === 0 };
}

/** "" where nothing is filled in, undefined where it is no value of the type. */
function valueOf(f: FormField, v: string | string[] | undefined): string | undefined {
  if (v === undefined || v.length === 0) return "";
  if (typeof v !== "string") return `[${v.join(", ")}]`;
  if (f.type === "boolean" || (f.choices ?? []).length > 0) return v;
  if (f.type === "number" || f.type === "integer") {
    const t = v.trim();
    return t === "" ? "" : NUMBER.test(t) ? t : undefined;
  }
  return JSON.stringify(v);
}
