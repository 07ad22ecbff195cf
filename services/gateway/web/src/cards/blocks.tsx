// The payload: exact text on its own surface, nothing interpreted, nothing cut.
import { ChevronsDown, EyeOff, FoldVertical } from "lucide-react";
import { Fragment, type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import type { Block } from "@banksman/client";
import { Chip, CopyButton, Notice } from "../ui/controls";
import { countDiff, diffLines, type DiffLine } from "./diff";
import { jointWords, shellParts } from "./shell";

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
        i % 2 === 1 && word.length <= 26 ? <span key={i} className="whitespace-nowrap"><Verbatim text={word} /></span> : <Fragment key={i}><Verbatim text={word} /></Fragment>,
      )}
    </>
  );
}

const limits: Record<string, { lines: number; chars: number }> = {
  command: { lines: 60, chars: 6000 },
  diff: { lines: 40, chars: 4000 },
};
const defaultLimit = { lines: 16, chars: 1600 };
const PEEK = 10; // lines shown of a folded block

export function blockSize(b: Block): { lines: number; chars: number } {
  const text = b.form === "diff" ? `${b.old ?? ""}\n${b.new ?? ""}` : (b.text ?? "");
  return { lines: text.split("\n").length, chars: text.length };
}

/** Whether a block starts folded and must be opened before approving. */
export function isLong(b: Block): boolean {
  const size = blockSize(b);
  const limit = limits[b.form] ?? defaultLimit;
  return size.lines > limit.lines || size.chars > limit.chars;
}

export function PayloadBlock({ block, cwd, onSeen }: { block: Block; cwd?: string; onSeen: () => void }) {
  if (block.form === "path") return <PathRow block={block} />;
  return (
    <section aria-label={block.label} className="space-y-2">
      {block.form === "diff" ? <DiffBlock block={block} onSeen={onSeen} /> : <TextBlock block={block} cwd={cwd} onSeen={onSeen} />}
      <Warnings block={block} />
      {block.form === "command" && <Steps line={block.text ?? ""} />}
    </section>
  );
}

function PathRow({ block }: { block: Block }) {
  return (
    <div>
      <div className="flex flex-wrap items-baseline gap-x-2.5 rounded-lg bg-sunk px-3.5 py-2">
        <span className="text-[13px] text-soft"><Verbatim text={block.label} /></span>
        <code className="verbatim min-w-0 font-mono text-sm font-semibold"><Verbatim text={block.text ?? ""} /></code>
      </div>
      <Warnings block={block} />
    </div>
  );
}

function Warnings({ block }: { block: Block }) {
  return (
    <>
      {(block.hidden ?? 0) > 0 && (
        <Notice tone="amber" icon={<EyeOff size={16} />}>
          <strong>{block.hidden === 1 ? "1 invisible character" : `${block.hidden} invisible characters`}</strong> in here. Each is shown as a mark with its code, such as ⟦U+202E⟧.
        </Notice>
      )}
      {block.pushed && (
        <Notice tone="amber" icon={<FoldVertical size={16} />}>
          <strong>Part of this is pushed out of sight</strong> by blanks or empty lines. Read it to its end.
        </Notice>
      )}
    </>
  );
}

function Steps({ line }: { line: string }) {
  const parts = useMemo(() => shellParts(line), [line]);
  if (!parts) return null;
  return (
    <ol aria-label="The commands in this line" className="divide-y divide-line rounded-lg border border-line text-sm">
      {parts.map((p, i) => (
        <li key={i} className="flex gap-3 px-3.5 py-1.5">
          <span className="w-4 flex-none text-right font-semibold text-faint tabular-nums">{i + 1}</span>
          <span className="flex min-w-0 flex-1 flex-wrap items-baseline justify-between gap-x-3">
            <code className="verbatim min-w-0 font-mono text-[13px] font-medium"><Command text={p.text} /></code>
            <span className="text-[13px] text-faint">{jointWords[p.joint]}</span>
          </span>
        </li>
      ))}
    </ol>
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

function TextBlock({ block, cwd, onSeen }: { block: Block; cwd?: string; onSeen: () => void }) {
  const text = block.text ?? "";
  const hero = block.form === "command";
  const size = blockSize(block);
  const countable = block.form === "content" || (block.lines ?? 0) > 4;
  return (
    <Surface label={block.label} copy={text} extra={<>
      {cwd && <span>in <code className="verbatim font-mono text-code-ink/85"><Verbatim text={cwd} /></code></span>}
      {countable && <span>{count(block.lines ?? size.lines, "line")}</span>}
    </>}>
      <Folding long={isLong(block)} lines={size.lines} label={block.label} onSeen={onSeen} full={
        <pre className={`verbatim px-4 pt-1 pb-4 font-mono ${hero ? "text-[15px] leading-6 font-medium" : "text-[13px] leading-5"}`}>{hero ? <Command text={text} /> : <Verbatim text={text} />}</pre>
      } peek={
        <pre className="verbatim px-4 pt-1 pb-2 font-mono text-[13px] leading-5"><Verbatim text={peekText(text)} /></pre>
      } />
    </Surface>
  );
}

function peekText(text: string): string {
  const cut = text.split("\n").slice(0, PEEK).join("\n");
  return cut.length > 1000 ? cut.slice(0, 1000) : cut;
}

function DiffBlock({ block, onSeen }: { block: Block; onSeen: () => void }) {
  const before = block.old ?? "";
  const after = block.new ?? "";
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  const n = countDiff(lines);
  const endDiffers = before !== "" && after !== "" && before.endsWith("\n") !== after.endsWith("\n");
  return (
    <Surface label={block.label} copy={after} extra={
      <span className="font-mono font-semibold">
        <span className="text-add-ink"><span className="sr-only">added lines </span>+{n.added}</span>{" "}
        <span className="text-del-ink"><span className="sr-only">removed lines </span>−{n.removed}</span>
      </span>
    }>
      <Folding long={isLong(block)} lines={lines.length} label={block.label} onSeen={onSeen}
        full={<DiffRows lines={lines} />} peek={<DiffRows lines={lines.slice(0, PEEK)} />} />
      {endDiffers && <p className="px-4 pb-3 text-[13px] text-code-dim">{after.endsWith("\n") ? "A line break is added at the end." : "The line break at the end is removed."}</p>}
    </Surface>
  );
}

const rowLook = { same: "text-code-ink/75", add: "bg-add text-add-ink", del: "bg-del text-del-ink" } as const;
const rowSign = { same: " ", add: "+", del: "−" } as const;
const rowWord = { same: "", add: "added: ", del: "removed: " } as const;

function DiffRows({ lines }: { lines: DiffLine[] }) {
  return (
    <div className="pt-1 pb-3 font-mono text-[13px] leading-5">
      {lines.map((l, i) => (
        <div key={i} data-op={l.op} className={`flex ${rowLook[l.op]}`}>
          <span aria-hidden className="w-9 flex-none pl-4 select-none">{rowSign[l.op]}</span>
          <span className="sr-only">{rowWord[l.op]}</span>
          <span className="verbatim min-w-0 flex-1 pr-4"><Verbatim text={l.text === "" ? " " : l.text} /></span>
        </div>
      ))}
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
      <div ref={box} onScroll={check} tabIndex={0} role="region" aria-label={`${label}, whole text`} className="max-h-[60vh] overflow-y-auto">
        {full}
      </div>
      {!seen && <p className="border-t border-code-ink/15 bg-code-ink/10 px-4 py-2 text-center text-sm">Scroll to the end of this text</p>}
    </>
  );
}

export function count(n: number, word: string): string {
  return n === 1 ? `1 ${word}` : `${n.toLocaleString("en")} ${word}s`;
}

/** What the agent says about it: its own words, marked as such. */
export function AgentWords({ parts }: { parts: { label: string; text: string }[] }) {
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
