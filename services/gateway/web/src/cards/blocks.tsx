// The payload: exact text on its own surface, nothing interpreted, nothing cut.
import { ChevronsDown, Columns2, EyeOff, FoldVertical, OctagonAlert, Rows2, TriangleAlert } from "lucide-react";
import { Fragment, type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import type { Block, Part } from "@banksman/client";
import { Chip, CopyButton, Notice } from "../ui/controls";
import { countDiff, diffLines, type DiffLine, inlineMarks, sideBySide, type Span } from "./diff";
import { isBad, jointWords, markParts } from "./parts";
import { Ordered } from "./unseen";

const TOKEN = /(⟦(?:U\+[0-9A-F]{4,6}|0x[0-9A-F]{2})⟧)/;

/** Text as text; marks for invisible characters stand out. */
export function Verbatim({ text }: { text: string }) {
  const parts = text.split(TOKEN);
  if (parts.length === 1) return <>{text}</>;
  return (
    <>
      {parts.map((p, i) =>
        i % 2 === 1 ? (
          <span key={i} data-token title="an invisible character" className="mx-0.5 rounded bg-token px-1 font-mono text-[0.85em] font-bold text-[#2b1c00]">
            {p}
          </span>
        ) : (
          <Fragment key={i}>{p}</Fragment>
        ),
      )}
    </>
  );
}

/** A command, broken between its words where there is room, so that no flag is torn from its dashes. */
function Command({ text }: { text: string }) {
  return (
    <>
      {text.split(/([^\s]+)/).map((word, i) =>
        i % 2 === 1 && word.length <= 26 ? <span key={i} className="whitespace-nowrap"><Ordered text={word} /></span> : <Fragment key={i}><Ordered text={word} /></Fragment>,
      )}
    </>
  );
}

const limits: Record<string, { lines: number; chars: number }> = {
  command: { lines: 60, chars: 6000 },
  diff: { lines: 40, chars: 4000 },
  plan: { lines: 60, chars: 6000 },
};
const defaultLimit = { lines: 16, chars: 1600 };
const PEEK = 10; // lines shown of a folded block

export function blockSize(b: Block): { lines: number; chars: number } {
  const text = b.form === "diff" ? `${b.old ?? ""}\n${b.new ?? ""}` : (b.text ?? "");
  return { lines: text.split("\n").length, chars: text.length };
}

/** Whether a block starts folded and must be opened before approving. */
export function isLong(b: Block): boolean {
  if (b.form === "path") return false; // always drawn whole
  const size = blockSize(b);
  const limit = limits[b.form] ?? defaultLimit;
  return size.lines > limit.lines || size.chars > limit.chars;
}

export interface PayloadProps {
  block: Block;
  cwd?: string;
  /** Of a command that runs several. */
  parts?: Part[] | null;
  moreParts?: number;
  onSeen: () => void;
}

export function PayloadBlock({ block, cwd, parts, moreParts = 0, onSeen }: PayloadProps) {
  if (block.form === "path") return <PathRow block={block} />;
  const several = block.form === "command" && parts && parts.length > 1 ? parts : undefined;
  return (
    <div role="group" aria-label={block.label} className="space-y-2">
      {block.form === "diff" ? <DiffBlock block={block} onSeen={onSeen} /> : <TextBlock block={block} cwd={cwd} parts={several} onSeen={onSeen} />}
      <Warnings block={block} />
      {several && <Steps line={block.text ?? ""} parts={several} more={moreParts} />}
    </div>
  );
}

function PathRow({ block }: { block: Block }) {
  return (
    <div>
      <div className="flex flex-wrap items-baseline gap-x-2.5 rounded-lg bg-sunk px-3.5 py-2">
        <span className="text-[13px] text-soft"><Verbatim text={block.label} /></span>
        <code className="verbatim min-w-0 font-mono text-sm font-semibold"><Ordered text={block.text ?? ""} /></code>
      </div>
      <Warnings block={block} />
    </div>
  );
}

function Warnings({ block }: { block: Block }) {
  return (
    <>
      {(block.hidden ?? 0) > 0 && (
        <Notice tone="strong" icon={<EyeOff size={16} />}>
          <strong>{block.hidden === 1 ? "1 invisible character" : `${block.hidden} invisible characters`}</strong> in here. Each is shown as a mark with its code, such as ⟦U+202E⟧.
        </Notice>
      )}
      {block.pushed && (
        <Notice tone="strong" icon={<FoldVertical size={16} />}>
          <strong>Part of this is pushed out of sight</strong> by blanks or empty lines. Read it to its end.
        </Notice>
      )}
    </>
  );
}

/** A list that is longer than this is folded to the parts that matter. */
const MANY = { parts: 6, chars: 240 };

/** The parts in their order. A long command stands above whole: its list names the bad parts only, until asked for all. */
function Steps({ line, parts, more }: { line: string; parts: Part[]; more: number }) {
  const long = parts.length > MANY.parts || line.length > MANY.chars;
  const [all, setAll] = useState(!long);
  const rows = parts.map((p, n) => ({ p, n })).filter(({ p }) => all || isBad(p));
  const total = parts.length + more;
  return (
    <div className="rounded-lg border border-line text-sm">
      <ol aria-label="The commands in this line" className="divide-y divide-line">
        {rows.map(({ p, n }) => (
          <li key={n} value={n + 1} data-risk={p.risk} className="flex gap-3 px-3.5 py-1.5">
            <span className="w-5 flex-none text-right font-semibold text-soft tabular-nums">{n + 1}</span>
            <div className="min-w-0 flex-1" style={p.depth ? { paddingLeft: `${Math.min(p.depth, 3) * 0.9}rem` } : undefined}>
              <span className="flex flex-wrap items-baseline justify-between gap-x-3">
                <code className={`verbatim min-w-0 font-mono text-[13px] ${isBad(p) ? "font-semibold" : "text-soft"} ${long ? "line-clamp-2" : ""}`}><Command text={p.text} /></code>
                <span className="text-[13px] text-faint">{p.depth ? `in its script, ${jointWords[p.joint] ?? ""}` : (jointWords[p.joint] ?? "")}</span>
              </span>
              {isBad(p) && (
                <span className="flex items-start gap-1.5 font-medium">
                  {p.risk === "critical" ? <OctagonAlert size={15} aria-hidden className="mt-0.5 flex-none" /> : <TriangleAlert size={15} aria-hidden className="mt-0.5 flex-none" />}
                  <span className="verbatim min-w-0">{p.risk === "critical" ? "Critical risk" : "High risk"}: <Verbatim text={p.risk_reason} /></span>
                </span>
              )}
            </div>
          </li>
        ))}
      </ol>
      {(long || more > 0) && (
        <div className={`flex flex-wrap items-center justify-between gap-x-3 px-3.5 py-1 text-[13px] text-soft ${rows.length > 0 ? "border-t border-line" : ""}`}>
          <span>{all ? (more > 0 ? `${count(more, "command")} more, not listed; they count for the risk.` : "") : rows.length > 0 ? `${rows.length} of ${total} commands in this line` : `${total} commands in this line, none of high risk`}</span>
          {long && <button type="button" aria-expanded={all} onClick={() => setAll(!all)} className="min-h-9 rounded px-2 font-medium hover:bg-sunk max-md:min-h-11">{all ? "Only what matters" : "List all"}</button>}
        </div>
      )}
    </div>
  );
}

function Surface({ label, extra, copy, children }: { label: string; extra?: ReactNode; copy: string; children: ReactNode }) {
  return (
    <div className="overflow-hidden rounded-xl bg-code text-code-ink">
      <div className="flex min-h-9 flex-wrap items-center gap-x-3 px-4 pt-1.5 text-[13px] text-code-dim">
        <span><Verbatim text={label} /></span>
        {extra}
        <span className="ml-auto -mr-2"><CopyButton text={copy} onDark /></span>
      </div>
      {children}
    </div>
  );
}

function TextBlock({ block, cwd, parts, onSeen }: { block: Block; cwd?: string; parts?: Part[]; onSeen: () => void }) {
  const text = block.text ?? "";
  const hero = block.form === "command";
  const look = block.form === "plan" ? "font-sans text-[15px] leading-6" : hero ? "font-mono text-[15px] leading-6 font-medium" : "font-mono text-[13px] leading-5";
  const size = blockSize(block);
  const countable = block.form === "content" || block.form === "plan" || (block.lines ?? 0) > 4;
  return (
    <Surface label={block.label} copy={text} extra={<>
      {cwd && <span>in <code className="verbatim font-mono text-code-ink/85"><Ordered text={cwd} /></code></span>}
      {countable && <span>{count(block.lines ?? size.lines, "line")}</span>}
    </>}>
      <Folding long={isLong(block)} lines={size.lines} label={block.label} onSeen={onSeen} full={
        <pre className={`verbatim px-4 pt-1 pb-4 ${look}`}>{hero ? <Marked text={text} parts={parts} /> : block.form === "plan" ? <Verbatim text={text} /> : <Ordered text={text} />}</pre>
      } peek={
        <pre className={`verbatim px-4 pt-1 pb-2 ${look}`}>{block.form === "plan" ? <Verbatim text={peekText(text)} /> : <Ordered text={peekText(text)} />}</pre>
      } />
    </Surface>
  );
}

/** The line as it is, its bad parts underlined and numbered as in the list below. */
function Marked({ text, parts }: { text: string; parts: Part[] | undefined }) {
  const pieces = useMemo(() => markParts(text, parts ?? []), [text, parts]);
  return (
    <>
      {pieces.map((p, i) => p.n === undefined
        ? <Command key={i} text={p.text} />
        : <mark key={i} data-n={p.n} className="part-mark bg-transparent text-inherit underline decoration-2 underline-offset-4"><Command text={p.text} /></mark>)}
    </>
  );
}

function peekText(text: string): string {
  const cut = text.split("\n").slice(0, PEEK).join("\n");
  return cut.length > 1000 ? cut.slice(0, 1000) : cut;
}

function DiffBlock({ block, onSeen }: { block: Block; onSeen: () => void }) {
  const before = block.old ?? "";
  const after = block.new ?? "";
  const lines = useMemo(() => inlineMarks(diffLines(before, after)), [before, after]);
  const n = useMemo(() => (block.added || block.removed ? { added: block.added ?? 0, removed: block.removed ?? 0 } : countDiff(lines)), [block, lines]);
  const endDiffers = before !== "" && after !== "" && before.endsWith("\n") !== after.endsWith("\n");
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const [chosen, setChosen] = useState<"split" | "unified" | undefined>();
  const both = n.added > 0 && n.removed > 0;
  const split = both && width >= TOGGLE_FROM && (chosen ?? (width >= SPLIT_FROM ? "split" : "unified")) === "split";
  return (
    <div ref={box}>
      <Surface label={block.label} copy={after} extra={<>
        <span className="font-mono font-semibold">
          <span className="text-add-ink"><span className="sr-only">added lines </span>+{n.added}</span>{" "}
          <span className="text-del-ink"><span className="sr-only">removed lines </span>−{n.removed}</span>
        </span>
        {both && width >= TOGGLE_FROM && (
          <button type="button" aria-pressed={split} onClick={() => setChosen(split ? "unified" : "split")} className="inline-flex items-center gap-1 rounded px-1.5 py-0.5 text-xs font-medium hover:text-code-ink">
            {split ? <Rows2 size={13} aria-hidden /> : <Columns2 size={13} aria-hidden />}{split ? "One column" : "Side by side"}
          </button>
        )}
      </>}>
        <Folding long={isLong(block)} lines={lines.length} label={block.label} onSeen={onSeen}
          full={split ? <SplitRows lines={lines} /> : <DiffRows lines={lines} />} peek={<DiffRows lines={lines.slice(0, PEEK)} />} />
        {endDiffers && <p className="px-4 pb-3 text-[13px] text-code-dim">{after.endsWith("\n") ? "A line break is added at the end." : "The line break at the end is removed."}</p>}
      </Surface>
    </div>
  );
}

/** Widths in pixels: from where two columns can be asked for, and from where they are the first choice. */
const TOGGLE_FROM = 600;
const SPLIT_FROM = 820;

function useWidth(ref: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const el = ref.current;
    if (!el || typeof ResizeObserver === "undefined") return;
    const o = new ResizeObserver((entries) => setWidth(entries.at(-1)?.contentRect.width ?? 0));
    o.observe(el);
    return () => o.disconnect();
  }, [ref]);
  return width;
}

const rowLook = { same: "text-code-ink/75", add: "bg-add text-add-ink", del: "bg-del text-del-ink" } as const;
const markLook = { same: "", add: "bg-add-mark", del: "bg-del-mark" } as const;
const rowSign = { same: " ", add: "+", del: "−" } as const;
const rowWord = { same: "", add: "added: ", del: "removed: " } as const;

/** A line's text, with what changed inside of it marked. */
function LineText({ line }: { line: DiffLine }) {
  if (!line.spans) return <Ordered text={line.text === "" ? " " : line.text} />;
  return <>{line.spans.map((s: Span, i) => s.changed ? <span key={i} data-changed className={`rounded-xs ${markLook[line.op]}`}><Ordered text={s.text} /></span> : <Ordered key={i} text={s.text} />)}</>;
}

function DiffRows({ lines }: { lines: DiffLine[] }) {
  return (
    <div className="pt-1 pb-3 font-mono text-[13px] leading-5">
      {lines.map((l, i) => (
        <div key={i} data-op={l.op} className={`flex ${rowLook[l.op]}`}>
          <span aria-hidden className="w-9 flex-none pl-4 select-none">{rowSign[l.op]}</span>
          <span className="sr-only">{rowWord[l.op]}</span>
          <span className="verbatim min-w-0 flex-1 pr-4"><LineText line={l} /></span>
        </div>
      ))}
    </div>
  );
}

/** Before on the left, after on the right; what belongs together in one row. */
function SplitRows({ lines }: { lines: DiffLine[] }) {
  return (
    <div data-split className="grid grid-cols-2 pt-1 pb-3 font-mono text-[13px] leading-5">
      {sideBySide(lines).flatMap(([left, right], i) => [
        <SplitCell key={`l${i}`} line={left} />,
        <SplitCell key={`r${i}`} line={right} right />,
      ])}
    </div>
  );
}

function SplitCell({ line, right }: { line: DiffLine | undefined; right?: boolean }) {
  const edge = right ? "border-l border-code-ink/15" : "";
  if (!line) return <div className={`bg-code-ink/5 ${edge}`} />;
  return (
    <div data-op={line.op} className={`flex min-w-0 ${rowLook[line.op]} ${edge}`}>
      <span aria-hidden className="w-7 flex-none pl-3 select-none">{rowSign[line.op]}</span>
      <span className="sr-only">{rowWord[line.op]}</span>
      <span className="verbatim min-w-0 flex-1 pr-2"><LineText line={line} /></span>
    </div>
  );
}

/** Long text starts folded and says how much is hidden; it counts as seen once its end was on screen. */
function Folding({ long, lines, label, full, peek, onSeen }: { long: boolean; lines: number; label: string; full: ReactNode; peek: ReactNode; onSeen: () => void }) {
  const [open, setOpen] = useState(false);
  const [seen, setSeen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const check = () => {
    const el = box.current;
    if (el && el.scrollTop + el.clientHeight >= el.scrollHeight - 4) {
      setSeen(true);
      onSeen();
    }
  };
  useEffect(() => {
    if (open) check();
    // Only opening matters here; scrolling reports by itself.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [open]);
  if (!long) return full;
  if (!open) {
    const hidden = lines - PEEK;
    return (
      <>
        {peek}
        <button type="button" data-expand aria-expanded={false} onClick={() => setOpen(true)}
          className="flex min-h-11 w-full items-center justify-center gap-2 border-t border-code-ink/15 bg-code-ink/10 px-4 text-sm font-medium hover:bg-code-ink/20">
          <ChevronsDown size={16} aria-hidden />
          {hidden > 0 ? `Show all ${lines} lines, ${count(hidden, "line")} hidden` : "Show the whole text"}
        </button>
      </>
    );
  }
  return (
    <>
      <div ref={box} onScroll={check} tabIndex={0} role="group" aria-label={`${label}, whole text`} className="max-h-[60vh] overflow-y-auto">
        {full}
      </div>
      {!seen && <p className="border-t border-code-ink/15 bg-code-ink/10 px-4 py-2 text-center text-sm">Scroll to the end of this text</p>}
    </>
  );
}

export function count(n: number, word: string): string {
  return n === 1 ? `1 ${word}` : `${n.toLocaleString("en")} ${word}s`;
}

interface Words {
  label: string;
  text: string;
}

/** Without what was said already: the agent's title often repeats its description or the payload. */
export function distinct(words: Words[], said: string[] = []): Words[] {
  const known = said.map(bare);
  return words.filter(({ text }) => {
    const b = bare(text);
    // A title such as "Bash: ls" or "Edit /a.go" says no more than what it names.
    const tail = b.replace(/^\w+:? /, "");
    const cut = b.replace(/ …$| \.\.\.$|…$/, "");
    if (b === "" || known.some((k) => k === b || k === tail || (cut !== b && (k.startsWith(cut) || k.startsWith(cut.replace(/^\w+:? /, "")))))) return false;
    known.push(b);
    return true;
  });
}

function bare(text: string): string {
  return text.replace(/\s+/g, " ").trim().replace(/\.$/, "").toLowerCase();
}

/** What the agent says about it: its own words, marked as such. */
export function AgentWords({ parts }: { parts: Words[] }) {
  const shown = parts.filter((p) => p.text.trim() !== "");
  if (shown.length === 0) return null;
  return (
    <figure className="border-l-2 border-line pl-3.5">
      <figcaption className="text-[13px] text-faint">In the agent’s own words</figcaption>
      {shown.map((p, i) => (
        <div key={i} className="mt-0.5 text-[15px] text-soft">
          {p.label && <span className="mr-1.5 text-[13px] text-faint"><Verbatim text={p.label} />:</span>}
          <span className="verbatim"><Verbatim text={p.text} /></span>
        </div>
      ))}
    </figure>
  );
}

export function Header({ children }: { children: string }) {
  return <Chip tone="accent"><Verbatim text={children} /></Chip>;
}
