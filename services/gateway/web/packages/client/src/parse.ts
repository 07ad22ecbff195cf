// JSON of the gateway without touching what people and agents wrote: the values
// of updated_input and content stay the text they are, so that no number is
// rounded on its way to the screen.

// A quote that is not escaped begins or ends a string, and a string before a
// colon is a key; so this cannot match inside of a text.
const VERBATIM = /(?<!\\)"(?:updated_input|content)"\s*:\s*/g;

/** Parses; values of updated_input and content that are no strings become their JSON text. */
export function parse(text: string): unknown {
  return JSON.parse(verbatim(text));
}

function verbatim(text: string): string {
  let out = "";
  let done = 0;
  VERBATIM.lastIndex = 0;
  for (let m = VERBATIM.exec(text); m; m = VERBATIM.exec(text)) {
    const start = VERBATIM.lastIndex;
    const first = text[start];
    if (first === '"' || first === undefined || text.startsWith("null", start)) continue;
    const end = valueEnd(text, start);
    out += text.slice(done, start) + JSON.stringify(text.slice(start, end));
    done = VERBATIM.lastIndex = end;
  }
  return done === 0 ? text : out + text.slice(done);
}

/** Where the JSON value that begins at i ends. */
function valueEnd(text: string, i: number): number {
  let depth = 0;
  for (; i < text.length; i++) {
    const c = text[i];
    if (c === '"') {
      i = stringEnd(text, i);
      if (depth === 0) return i + 1;
    } else if (c === "{" || c === "[") depth++;
    else if (c === "}" || c === "]") {
      if (depth === 0) return i; // of what surrounds a number
      if (--depth === 0) return i + 1;
    } else if (depth === 0 && (c === "," || c === " " || c === "\n" || c === "\r" || c === "\t")) return i;
  }
  return i;
}

function stringEnd(text: string, i: number): number {
  for (i++; i < text.length && text[i] !== '"'; i++) if (text[i] === "\\") i++;
  return i;
}
