/**
 * Cuts a shell line into the commands it runs one after another, for reading
 * only. null where that cannot be done with certainty: then the line alone is
 * shown, which is what counts anyway.
 */
export function shellParts(line: string): { text: string; joint: string }[] | null {
  if (/[`\n⟦]|\$\(|<\(|>\(|<<|\\|[(){}]|(^|\s)(if|for|while|until|case|do|then|function)\s/.test(line)) return null;
  const parts: { text: string; joint: string }[] = [];
  let quote = "";
  let start = 0;
  let joint = "";
  for (let i = 0; i < line.length; i++) {
    const c = line[i]!;
    if (quote) {
      if (c === quote) quote = "";
      continue;
    }
    if (c === "'" || c === '"') {
      quote = c;
      continue;
    }
    if (c === "#" && (i === 0 || line[i - 1] === " ")) return null;
    const two = line.slice(i, i + 2);
    let op = "";
    if (two === "&&" || two === "||") op = two;
    else if (c === ";" || (c === "|" && two !== "|&")) op = c;
    else if (c === "&" && line[i - 1] !== ">" && line[i + 1] !== ">") return null; // a job in the background
    if (!op) continue;
    parts.push({ text: line.slice(start, i).trim(), joint });
    joint = op;
    i += op.length - 1;
    start = i + 1;
  }
  if (quote) return null;
  parts.push({ text: line.slice(start).trim(), joint });
  if (parts.length < 2 || parts.some((p) => p.text === "")) return null;
  return parts;
}

export const jointWords: Record<string, string> = {
  "": "first",
  "&&": "then, if that worked",
  "||": "only if that failed",
  ";": "then, in any case",
  "|": "fed with its output",
};
