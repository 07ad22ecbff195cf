// A line diff: the shortest edit script (Myers) after common ends are cut off.
export interface DiffLine {
  op: "same" | "add" | "del";
  text: string;
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
