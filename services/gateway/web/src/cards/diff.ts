// A line diff: the shortest edit script (Myers) after common ends are cut off.
export interface DiffLine {
  op: "same" | "add" | "del";
  text: string;
  /** The line in pieces, where it is a line that changed and not a new one. */
  spans?: Span[];
}

export interface Span {
  text: string;
  changed: boolean;
}

/** Beyond this many edits two texts have little in common: show all of both. */
const MAX_EDITS = 1500;

export function splitLines(s: string): string[] {
  if (s === "") return [];
  return (s.endsWith("\n") ? s.slice(0, -1) : s).split("\n");
}

export function diffLines(before: string, after: string): DiffLine[] {
  const a = splitLines(before);
  const b = splitLines(after);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  return [
    ...a.slice(0, head).map(same),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map(same),
  ];
}

const same = (text: string): DiffLine => ({ op: "same", text });
const add = (text: string): DiffLine => ({ op: "add", text });
const del = (text: string): DiffLine => ({ op: "del", text });

function middle(a: string[], b: string[]): DiffLine[] {
  const max = Math.min(a.length + b.length, MAX_EDITS);
  const reach = new Map<number, number>([[1, 0]]);
  const trace: Map<number, number>[] = [];
  for (let d = 0; d <= max; d++) {
    trace.push(new Map(reach));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = down ? (reach.get(k + 1) ?? 0) : (reach.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      reach.set(k, x);
      if (x >= a.length && x - k >= b.length) return walkBack(a, b, trace, d);
    }
  }
  return [...a.map(del), ...b.map(add)];
}

function walkBack(a: string[], b: string[], trace: Map<number, number>[], edits: number): DiffLine[] {
  const out: DiffLine[] = [];
  let x = a.length;
  let y = b.length;
  for (let d = edits; d >= 0; d--) {
    const reach = trace[d]!;
    const k = x - y;
    const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const fromX = down ? (reach.get(k + 1) ?? 0) : (reach.get(k - 1) ?? 0);
    const fromY = fromX - (down ? k + 1 : k - 1);
    while (x > fromX && y > fromY && x > 0 && y > 0) {
      out.push(same(a[--x]!));
      y--;
    }
    if (d === 0) break;
    if (down) out.push(add(b[--y]!));
    else out.push(del(a[--x]!));
  }
  return out.reverse();
}

export function countDiff(lines: DiffLine[]): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const l of lines) {
    if (l.op === "add") added++;
    else if (l.op === "del") removed++;
  }
  return { added, removed };
}

/** Beyond this many characters nobody sees a mark inside of a line. */
const MAX_INLINE = 1000;

/** In longer runs nobody looks for the line that a line became. */
const MAX_RUN = 40;

/**
 * Marks what changed inside of lines: each line that goes is held against those
 * that come in its place, and takes the most alike. Lines with little in common
 * with any stay whole.
 */
export function inlineMarks(lines: DiffLine[]): DiffLine[] {
  const out = [...lines];
  for (const [dels, adds] of runs(lines)) {
    if (dels.length * adds.length > MAX_RUN * MAX_RUN) continue;
    let next = 0;
    for (const d of dels) {
      let best: { i: number; like: number; spans: [Span[], Span[]] } | undefined;
      for (let i = next; i < adds.length; i++) {
        const m = spansOf(lines[d]!.text, lines[adds[i]!]!.text);
        if (m && m.like > (best?.like ?? 0)) best = { i, ...m };
      }
      if (!best) continue;
      const a = adds[best.i]!;
      out[d] = { ...lines[d]!, spans: best.spans[0] };
      out[a] = { ...lines[a]!, spans: best.spans[1] };
      next = best.i + 1;
    }
  }
  return out;
}

/** The runs of changed lines, as indexes: what goes and what comes. */
function runs(lines: DiffLine[]): [number[], number[]][] {
  const out: [number[], number[]][] = [];
  let run: [number[], number[]] | undefined;
  lines.forEach((l, i) => {
    if (l.op === "same") run = undefined;
    else {
      if (!run) out.push((run = [[], []]));
      run[l.op === "del" ? 0 : 1].push(i);
    }
  });
  return out;
}

/** Both lines in pieces, and how alike they are; null where that is little. */
function spansOf(before: string, after: string): { like: number; spans: [Span[], Span[]] } | null {
  if (before.length + after.length > MAX_INLINE) return null;
  const words = /⟦[^⟧]*⟧|[\p{L}\p{N}_]+|\s+|./gsu;
  const d = middle(before.match(words) ?? [], after.match(words) ?? []);
  const kept = d.reduce((n, x) => n + (x.op === "same" && x.text.trim() !== "" ? x.text.length : 0), 0);
  const like = kept / Math.max(before.trim().length, after.trim().length, 1);
  if (like < 0.35) return null;
  const side = (other: DiffLine["op"]): Span[] => {
    const spans: Span[] = [];
    for (const x of d) {
      if (x.op === other) continue;
      const changed = x.op !== "same";
      const last = spans.at(-1);
      if (last && last.changed === changed) last.text += x.text;
      else spans.push({ text: x.text, changed });
    }
    return spans;
  };
  return { like, spans: [side("add"), side("del")] };
}

/** The lines in two columns. */
export function sideBySide(lines: DiffLine[]): [DiffLine | undefined, DiffLine | undefined][] {
  const out: [DiffLine | undefined, DiffLine | undefined][] = [];
  let dels: DiffLine[] = [];
  let adds: DiffLine[] = [];
  const flush = () => {
    for (let i = 0; i < Math.max(dels.length, adds.length); i++) out.push([dels[i], adds[i]]);
    dels = [];
    adds = [];
  };
  for (const l of lines) {
    if (l.op === "del") dels.push(l);
    else if (l.op === "add") adds.push(l);
    else {
      flush();
      out.push([l, l]);
    }
  }
  flush();
  return out;
}
