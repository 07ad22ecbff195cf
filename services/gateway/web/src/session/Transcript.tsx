import { ChevronRight, CircleAlert, FileText, Image, LoaderCircle, Wrench } from "lucide-react";
import { type ReactNode, useLayoutEffect, useRef, useState } from "react";
import { PayloadBlock, Verbatim } from "../cards/blocks";
import { Badge, Receipt, Trail } from "../cards/Receipt";
import { receiptLine } from "../cards/words";
import { type AttachmentData, cardState, type Entry, isMe, type State } from "@banksman/client";
import { useAppState } from "../ui/context";

const PAGE = 200; // entries drawn at once

type Tool = Extract<Entry, { kind: "tool" }>;
type Ask = Extract<Entry, { kind: "ask" }>;

/** busy: the agent works at the moment, and waits for nobody. follow: whoever reads is at its end. */
export function Transcript({ entries, session, now, busy, follow }: { entries: Entry[]; session: string; now: number; busy: boolean; follow: boolean }) {
  const [shown, setShown] = useState(PAGE);
  const state = useAppState();
  // What waits at the end has its card right below.
  let end = entries.length;
  while (end > 0 && waits(entries[end - 1]!, state, session)) end--;
  // What somebody reads further up is not taken away by what comes at the end.
  const first = useRef(0);
  const hidden = follow ? Math.max(0, end - shown) : Math.min(first.current, end);
  const box = useRef<HTMLDivElement>(null);
  const held = useRef<{ el: Element; y: number }>(undefined);
  useLayoutEffect(() => {
    first.current = hidden;
    if (!held.current) return;
    const { el, y } = held.current;
    held.current = undefined;
    const scroller = el.closest("[role=log]");
    if (scroller) scroller.scrollTop += el.getBoundingClientRect().top - y;
  });
  const earlier = () => {
    const el = box.current?.children[1]; // below the button
    if (el) held.current = { el, y: el.getBoundingClientRect().top };
    first.current = Math.max(0, hidden - PAGE);
    setShown(shown + PAGE);
  };
  const calls = new Map(entries.flatMap((e) => (e.kind === "tool" ? [[e.call, e] as const] : [])));
  return (
    <div ref={box} className="space-y-4">
      {hidden > 0 && (
        <button type="button" onClick={earlier} className="mx-auto block min-h-11 rounded-lg px-4 text-sm font-medium text-accent hover:bg-sunk">Show {Math.min(hidden, PAGE)} earlier steps of {hidden}</button>
      )}
      {runs(entries.slice(hidden, end)).map(({ parent, list }) => {
        const steps = list.map((e) => <Step key={e.id} e={e} state={state} session={session} now={now} busy={busy} />);
        return parent === "" ? steps : <SubAgent key={`sub:${list[0]!.id}`} call={calls.get(parent)}>{steps}</SubAgent>;
      })}
    </div>
  );
}

/** Steps one after the other that are of the same agent. */
function runs(entries: Entry[]): { parent: string; list: Entry[] }[] {
  const out: { parent: string; list: Entry[] }[] = [];
  for (const e of entries) {
    const parent = e.kind === "text" || e.kind === "tool" ? e.parent : "";
    const last = out.at(-1);
    if (last?.parent === parent) last.list.push(e);
    else out.push({ parent, list: [e] });
  }
  return out;
}

function SubAgent({ call, children }: { call: Tool | undefined; children: ReactNode }) {
  const task = call ? lead(call) : "";
  return (
    <section aria-label="Sub-agent" className="space-y-3 border-l-2 border-line pl-4">
      <p className="text-[13px] font-medium text-soft">Sub-agent{task !== "" && <>: <span className="font-normal"><Verbatim text={task} /></span></>}</p>
      {children}
    </section>
  );
}

function waits(e: Entry, state: State, session: string): boolean {
  if (e.kind !== "ask") return false;
  const item = itemOf(e, state, session);
  return !!item && !item.closed;
}

function itemOf(e: Ask, state: State, session: string) {
  return state.items[e.key] ?? Object.values(state.items).find((i) => i.summary.request_id === e.request && i.summary.session_key === session);
}

function Step({ e, state, session, now, busy }: { e: Entry; state: State; session: string; now: number; busy: boolean }) {
  switch (e.kind) {
    case "text":
      if (e.role === "user" && e.parent === "") {
        return (
          <div className="ml-auto flex w-fit max-w-[85%] flex-col items-end gap-1.5">
            {e.attachments.length > 0 && <ul aria-label="Attachments" className="flex flex-wrap justify-end gap-1.5">{e.attachments.map((a, i) => <Attached key={i} a={a} />)}</ul>}
            {e.text !== "" && <div className="verbatim rounded-2xl bg-sunk px-4 py-2.5"><Verbatim text={e.text} /></div>}
          </div>
        );
      }
      return <div className="verbatim"><Verbatim text={e.text} /></div>;
    case "tool": return <ToolStep e={e} busy={busy} />;
    case "note":
      return (
        <p className={`flex items-start gap-2 text-sm ${e.bad ? "font-medium text-ink" : "text-faint"}`}>
          {e.bad && <CircleAlert size={16} aria-hidden className="mt-0.5 flex-none" />}<span className="verbatim"><Verbatim text={e.text} /></span>
        </p>
      );
    case "ask": return <AskStep e={e} state={state} session={session} now={now} />;
  }
}

/** What was sent along. Only the agent has the content. */
function Attached({ a }: { a: AttachmentData }) {
  return (
    <li className="inline-flex max-w-60 items-center gap-1.5 rounded-md bg-sunk px-2 py-1 text-[13px]">
      {a.kind === "image" ? <Image size={14} role="img" aria-label="Image" className="flex-none" /> : <FileText size={14} role="img" aria-label="Document" className="flex-none" />}
      <span className="truncate" title={a.name ?? undefined}><Verbatim text={a.name || a.media_type || "unnamed"} /></span>
    </li>
  );
}

/** The one line that says most of a call: the command, the path, or else its input. */
function lead(e: Tool): string {
  const block = e.blocks.find((b) => b.form === "command" || b.form === "path") ?? e.blocks.find((b) => b.form === "text");
  return (block?.text || e.input).replace(/\s+/g, " ").trim();
}

function ToolStep({ e, busy }: { e: Tool; busy: boolean }) {
  const [open, setOpen] = useState(false);
  const ended = !e.done && e.over;
  return (
    <details className="group rounded-xl border border-line bg-card text-sm" onToggle={(ev) => setOpen(ev.currentTarget.open)}>
      <summary className="flex min-h-10 list-none items-center gap-2.5 rounded-xl px-3.5 [&::-webkit-details-marker]:hidden max-md:min-h-11">
        <Wrench size={15} aria-hidden className="flex-none text-faint" />
        <span className="max-w-[40%] flex-none truncate font-medium"><Verbatim text={e.name || "Tool"} /></span>
        <code className="min-w-0 flex-1 truncate font-mono text-[13px] text-soft">{lead(e)}</code>
        {!e.done && !e.over && busy && <LoaderCircle size={14} role="img" aria-label="runs" className="flex-none animate-spin text-faint" />}
        {e.failed && <span className="flex-none text-soft">error</span>}
        {ended && <span className="flex-none text-faint">no result</span>}
        <ChevronRight size={16} aria-hidden className="flex-none text-faint transition-transform group-open:rotate-90" />
      </summary>
      {open && (
        <div className="space-y-2 border-t border-line p-3.5">
          {e.blocks.length > 0
            ? e.blocks.map((b, i) => <PayloadBlock key={i} block={b} onSeen={nothing} />)
            : e.input !== "" && <pre className="verbatim max-h-96 overflow-y-auto rounded-lg bg-code px-3 py-2 font-mono text-[13px] leading-5 text-code-ink" tabIndex={0} aria-label="Input"><Verbatim text={e.input} /></pre>}
          {e.result !== undefined && <pre className="verbatim max-h-96 overflow-y-auto rounded-lg bg-sunk px-3 py-2 font-mono text-[13px] leading-5" tabIndex={0} aria-label="Result"><Verbatim text={e.result === "" ? "(no output)" : e.result} /></pre>}
          {e.result === undefined && <p className="text-soft">{ended ? "No result came: the turn ended before." : "No result yet."}</p>}
        </div>
      )}
    </details>
  );
}

function nothing(): void {
  // nothing is decided by what was seen here
}

/** An ask in its place: waiting while the conversation goes on, or its receipt. */
function AskStep({ e, state, session, now }: { e: Ask; state: State; session: string; now: number }) {
  const item = itemOf(e, state, session);
  if (item?.closed) {
    const card = cardState(state, item.summary.key);
    return <div className="rounded-2xl border border-line bg-card/60 px-4 py-3"><Receipt item={item.trail.length >= e.trail.length ? item : { ...item, trail: e.trail }} me={card === "confirmed"} lost={card === "lost"} now={now} /></div>;
  }
  if (item) {
    return <p className="flex items-center gap-2 text-sm text-soft"><span className="wait-dot" aria-hidden /><span className="verbatim min-w-0"><Verbatim text={item.summary.headline} /></span></p>;
  }
  // Long over: the record is in the event itself.
  return (
    <div data-testid={`receipt-${e.request}`} className="flex items-start gap-3 rounded-2xl border border-line bg-card/60 px-4 py-3">
      <Badge outcome={e.decision?.outcome} />
      <div className="min-w-0">
        <p className="verbatim font-semibold">{e.decision ? receiptLine("", e.decision.outcome, e.decision, isMe(state, e.decision.principal), false, now) : "A request of the agent"}</p>
        {e.headline && <p className="verbatim text-sm text-soft"><Verbatim text={e.headline} /></p>}
        {e.decision && e.trail.length > 0 && <Trail trail={e.trail} outcome={e.decision.outcome} now={now} />}
      </div>
    </div>
  );
}
