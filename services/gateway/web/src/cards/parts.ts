// The parts of a shell command, as the server read them.
import type { Part } from "@banksman/client";

export const jointWords: Record<string, string> = {
  first: "first",
  and: "then, if that worked",
  or: "only if that failed",
  then: "then, in any case",
  pipe: "fed with its output",
  background: "in the background",
  inside: "runs before it, as a part of it",
  loop: "again and again",
  branch: "if it comes to that",
  function: "when its function is called",
};

export function isBad(p: Part): boolean {
  return p.risk === "high" || p.risk === "critical";
}

/** The whole text in pieces; a bad part is a piece of its own with its number. */
export function markParts(text: string, parts: Part[]): { text: string; n?: number }[] {
  const out: { text: string; n?: number }[] = [];
  let done = 0;
  let from = 0;
  parts.forEach((p, i) => {
    if ((p.depth ?? 0) > 0) return; // of a script in quotes: the part that runs it is marked
    const at = text.indexOf(p.text, from);
    if (at < 0) return; // inside of one before it
    from = at + p.text.length;
    if (!isBad(p)) return;
    if (at > done) out.push({ text: text.slice(done, at) });
    out.push({ text: p.text, n: i + 1 });
    done = from;
  });
  if (done < text.length || out.length === 0) out.push({ text: text.slice(done) });
  return out;
}
