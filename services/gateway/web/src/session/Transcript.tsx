import { ChevronRight, CircleAlert, LoaderCircle, Wrench } from "lucide-react";
import { useState } from "react";
import { Verbatim } from "../cards/blocks";
import { Badge, Receipt, Trail } from "../cards/Receipt";
import { receiptLine } from "../cards/words";
import { cardState, type Entry, isMe, type State } from "@banksman/client";
import { useAppState } from "../ui/context";

const PAGE = 200; // entries drawn at once

export function Transcript({ entries, session, now }: { entries: Entry[]; session: string; now: number }) {
  const [shown, setShown] = useState(PAGE);
  const state = useAppState();
  const hidden = Math.max(0, entries.length - shown);
  return (
    <div className="space-y-4">
      {hidden > 0 && (
        <button type="button" onClick={() => setShown(shown + PAGE)} className="mx-auto block min-h-11 rounded-lg px-4 text-sm font-medium text-accent hover:bg-sunk">Show {Math.min(hidden, PAGE)} earlier steps of {hidden}</button>
      )}
      {entries.slice(hidden).map((e) => <Step key={e.id} e={e} state={state} session={session} now={now} />)}
    </div>
  );
}

function Step({ e, state, session, now }: { e: Entry; state: State; session: string; now: number }) {
  switch (e.kind) {
    case "text":
      if (e.role === "user") return <div className="verbatim ml-auto w-fit max-w-[85%] rounded-2xl bg-sunk px-4 py-2.5"><Verbatim text={e.text} /></div>;
      return <div className="verbatim"><Verbatim text={e.text} /></div>;
    case "tool": return <ToolStep e={e} />;
    case "note":
      return (
        <p className={`flex items-start gap-2 text-sm ${e.bad ? "text-amber" : "text-faint"}`}>
          {e.bad && <CircleAlert size={16} aria-hidden className="mt-0.5 flex-none" />}<span className="verbatim"><Verbatim text={e.text} /></span>
        </p>
      );
    case "ask": return <AskStep e={e} state={state} session={session} now={now} />;
  }
}

function ToolStep({ e }: { e: Extract<Entry, { kind: "tool" }> }) {
  return (
    <details className="group rounded-xl border border-line bg-card text-sm">
      <summary className="flex min-h-10 list-none items-center gap-2.5 rounded-xl px-3.5 [&::-webkit-details-marker]:hidden max-md:min-h-11">
        <Wrench size={15} aria-hidden className="flex-none text-faint" />
        <span className="flex-none font-medium"><Verbatim text={e.name || "Tool"} /></span>
        <code className="min-w-0 flex-1 truncate font-mono text-[13px] text-soft">{e.input.replace(/\s+/g, " ")}</code>
        {!e.done && <LoaderCircle size={14} aria-label="not finished" className="flex-none animate-spin text-faint" />}
        {e.failed && <span className="flex-none text-amber">error</span>}
        <ChevronRight size={16} aria-hidden className="flex-none text-faint transition-transform group-open:rotate-90" />
      </summary>
      <div className="space-y-2 border-t border-line p-3.5">
        {e.input !== "" && <pre className="verbatim max-h-96 overflow-y-auto rounded-lg bg-code px-3 py-2 font-mono text-[13px] leading-5 text-code-ink"><Verbatim text={e.input} /></pre>}
        {e.result !== undefined && <pre className="verbatim max-h-96 overflow-y-auto rounded-lg bg-sunk px-3 py-2 font-mono text-[13px] leading-5"><Verbatim text={e.result === "" ? "(no output)" : e.result} /></pre>}
        {e.result === undefined && <p className="text-faint">No result yet.</p>}
      </div>
    </details>
  );
}

/** An ask in its place: waiting (the card is below), or its receipt. */
function AskStep({ e, state, session, now }: { e: Extract<Entry, { kind: "ask" }>; state: State; session: string; now: number }) {
  const item = state.items[e.key] ?? Object.values(state.items).find((i) => i.summary.request_id === e.request && i.summary.session_key === session);
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
