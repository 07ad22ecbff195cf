import { LockKeyhole, X } from "lucide-react";
import { useEffect, useId, useRef, useState } from "react";
import type { Item, Say } from "@banksman/client";
import { AgentWords, isLong, PayloadBlock, Verbatim } from "../cards/blocks";
import { Ordered } from "../cards/unseen";
import { SeenEnd } from "../cards/SeenEnd";
import { useDraft } from "../cards/useDraft";
import { origin } from "../cards/words";
import { useAppState, useCards } from "../ui/context";
import { Button, inputClass } from "../ui/controls";
import { useFresh } from "../ui/fresh";
import { LiveRegion } from "../ui/LiveRegion";
import { decideAll, type Fate, type Listed } from "./batch";

/** Every selected request in full, and one press for all of them. */
export function BatchSheet({ keys, onDrop, onClose }: { keys: readonly string[]; onDrop: (key: string) => void; onClose: () => void }) {
  const app = useCards();
  const state = useAppState();
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  // What is listed is what is sent: later changes of a request do not slip in.
  const [list, setListed] = useState<Listed[]>(() => keys.map((key) => ({ key, digest: state.items[key]?.summary.digest ?? "" })));
  const [seen, setSeen] = useState<ReadonlySet<string>>(new Set());
  const [end, setEnd] = useState(false);
  // Kept over Esc and a reload, for as long as it is about one of these.
  const [draft, setDraft] = useDraft("batch");
  const about = draft.fields?.about ?? [];
  const reason = list.some((l) => about.includes(l.key)) ? (draft.reason ?? "") : "";
  const setReason = (text: string) => setDraft({ reason: text, fields: text === "" ? undefined : { about: list.map((l) => l.key) } });
  const [fates, setFates] = useState<Record<string, Fate>>({});
  const [sending, setSending] = useState<"" | "allow" | "deny">("");
  const [over, setOver] = useState(false);
  useEffect(() => {
    const d = box.current;
    d?.showModal?.();
    return () => d?.close?.();
  }, []);

  const takeOut = (key: string) => {
    setListed(list.filter((l) => l.key !== key));
    onDrop(key);
  };
  const missing = list.filter((l) => !state.items[l.key]?.summary.body && !state.items[l.key]?.closed && state.items[l.key]?.load === "idle").map((l) => l.key).join("\n");
  useEffect(() => {
    for (const key of missing === "" ? [] : missing.split("\n")) void app.client.load(key);
  }, [missing, app]);

  const open = list.filter((l) => {
    const item = state.items[l.key];
    return item && !item.closed && item.summary.digest === l.digest && !fates[l.key]?.done;
  });
  const why = lock(open.map((l) => state.items[l.key]!), seen, end);
  // The end of a list whose texts are yet to come is not its end.
  const whole = list.every((l) => state.items[l.key]?.summary.body || state.items[l.key]?.closed);
  const fresh = useFresh("");
  const offline = state.conn.status !== "online";
  const off = offline || sending !== "" || open.length === 0;
  const decide = (what: "allow" | "deny", say: Say) => {
    setSending(what);
    setFates({});
    const told: Record<string, Fate> = {};
    void decideAll(app.client, open, say, (key, f) => {
      told[key] = f;
      setFates((old) => ({ ...old, [key]: f }));
    }).then(() => {
      const did = Object.keys(told).filter((key) => told[key]!.done);
      const not = Object.keys(told).length - did.length;
      setSending("");
      setOver(true);
      for (const key of did) onDrop(key);
      if (what === "deny" && not === 0) app.drafts.drop("batch");
      app.store.dispatch({ kind: "say", text: `${did.length} decided${not > 0 ? `, ${not} not` : ""}.` });
    });
  };
  const done = list.filter((l) => fates[l.key]?.done);
  const failed = list.filter((l) => fates[l.key] && !fates[l.key]!.done);

  return (
    <dialog ref={box} data-testid="batch" aria-labelledby={`${id}-title`} onClose={() => (sending === "" ? onClose() : box.current?.showModal?.())}
      onKeyDown={(e) => {
        e.stopPropagation();
        // What is on its way is told here: the sheet stays until all of it is.
        if (e.key === "Escape" && sending !== "") e.preventDefault();
      }}
     
      className="m-auto flex max-h-[92dvh] w-full max-w-3xl flex-col rounded-2xl border border-line bg-page p-0 text-ink shadow-card backdrop:bg-black/40">
      <header className="flex flex-none items-center justify-between gap-3 border-b border-line px-5 py-3">
        <h2 id={`${id}-title`} className="text-lg font-semibold">{list.length === 1 ? "Decide 1 request" : `Decide ${list.length} requests`}</h2>
        <Button small look="quiet" aria-label="Close" disabled={sending !== ""} onClick={onClose}><X size={16} aria-hidden /></Button>
      </header>
      <ol data-scroll tabIndex={0} aria-label="What is decided" className="min-h-0 flex-1 space-y-4 overflow-y-auto px-5 py-4">
        {list.map((l, i) => {
          const item = state.items[l.key];
          return item && <Listing key={l.key} item={item} n={i + 1} fate={fates[l.key]} still={sending === ""} changed={item.summary.digest !== l.digest} session={state.sessions[item.summary.session_key]?.title}
            onSeen={(b) => setSeen((old) => new Set(old).add(`${l.key} ${b}`))} onDrop={sending === "" && !over && list.length > 1 ? () => takeOut(l.key) : undefined} />;
        })}
        {whole && <li aria-hidden><SeenEnd onSeen={() => setEnd(true)} /></li>}
      </ol>
      <footer className="flex-none space-y-2.5 border-t border-line px-5 py-3">
        {over ? (
          <div className="flex flex-wrap items-center justify-between gap-2">
            <p className="text-sm">
              {done.length > 0 && <span>{done.length} decided. </span>}
              {failed.length > 0 && <strong className="font-medium text-ink">{failed.length} not: the reasons stand above. Nothing else about them has changed.</strong>}
            </p>
            <Button look="solid" data-testid="batch-close" onClick={onClose}>Close</Button>
          </div>
        ) : (
          <>
            <label htmlFor={`${id}-reason`} className="block text-sm text-soft">If you deny: why? Each agent reads this. It may stay empty.</label>
            <textarea id={`${id}-reason`} data-testid="batch-reason" rows={1} value={reason} disabled={sending !== ""} onChange={(e) => setReason(e.target.value)} className={`${inputClass} field-sizing-content max-h-40 min-h-11`} />
            {offline && <p className="text-sm font-medium text-ink">No connection to the server. Decisions are off until it is back.</p>}
            {why !== "" && <p id={`${id}-why`} className="flex items-center gap-2 text-sm text-soft"><LockKeyhole size={15} aria-hidden />{why}</p>}
            <div className={`flex items-center justify-between gap-2 ${fresh ? "pointer-events-none" : ""}`}>
              <Button data-testid="batch-deny" disabled={off} busy={sending === "deny"} onClick={() => decide("deny", reason.trim() ? { decision: "deny", message: reason.trim() } : { decision: "deny" })}>Deny {open.length === 1 ? "it" : `all ${open.length}`}</Button>
              <Button look="solid" data-testid="batch-approve" disabled={off || why !== ""} busy={sending === "allow"} aria-describedby={why ? `${id}-why` : undefined} onClick={() => decide("allow", { decision: "allow", scope: "once" })}>Approve {open.length === 1 ? "it" : `all ${open.length}`}, once</Button>
            </div>
          </>
        )}
      </footer>
      <LiveRegion inside />
    </dialog>
  );
}

/** Why not all of them can be approved together yet; empty when they can. */
export function lock(items: readonly Item[], seen: ReadonlySet<string>, end: boolean): string {
  if (items.some((i) => !i.summary.body)) return "Approve opens once all requests are here in full.";
  if (items.some((i) => !i.summary.body!.verbs?.includes("allow"))) return "One of them cannot be approved. Take it out, or deny them.";
  if (items.some((i) => i.summary.risk === "critical")) return "A critical request is approved by itself only. Take it out first.";
  const unseen = items.some((i) => payload(i).some((b, n) => isLong(b) && !seen.has(`${i.summary.key} ${n}`)));
  return unseen || !end ? "Approve opens once you have seen all of it." : "";
}

function payload(item: Item) {
  return (item.summary.body?.blocks ?? []).filter((b) => b.form !== "text");
}

function Listing({ item, n, fate, still, changed, session, onSeen, onDrop }: { item: Item; n: number; fate: Fate | undefined; still: boolean; changed: boolean; session: string | undefined; onSeen: (block: number) => void; onDrop: (() => void) | undefined }) {
  const { summary } = item;
  const body = summary.body;
  const blocks = payload(item);
  const settled = item.closed && !fate && still;
  return (
    <li data-testid={`batch-${summary.request_id}`} className="space-y-2.5 rounded-2xl border border-line bg-card p-4">
      <div className="flex items-start gap-3">
        <span className="text-sm text-faint tabular-nums">{n}.</span>
        <div className="min-w-0 flex-1">
          <p className="verbatim font-semibold"><Ordered text={summary.headline} /></p>
          <p className="verbatim text-sm text-soft"><Verbatim text={origin(summary, session).join(" · ")} /> · {summary.risk} risk{summary.risk_reason ? <>: <Verbatim text={summary.risk_reason} /></> : null}</p>
        </div>
        {onDrop && <Button small look="quiet" onClick={onDrop} aria-label={`Take out: ${summary.headline}`}>Take out</Button>}
      </div>
      {!body && <p role="status" className="text-sm text-soft">{item.load === "failed" || item.load === "missing" ? "The whole request could not be fetched. It cannot be approved here." : "Fetching the whole request…"}</p>}
      {blocks.map((b, i) => <PayloadBlock key={i} block={b} cwd={b.form === "command" ? body?.cwd : undefined} onSeen={() => onSeen(i)} />)}
      {body && blocks.length === 0 && summary.tool_input && <PayloadBlock block={{ label: summary.tool_name || "Input", form: "json", text: summary.tool_input }} onSeen={() => undefined} />}
      <AgentWords parts={[{ label: "", text: summary.title === summary.headline ? "" : summary.title }, ...(body?.blocks ?? []).filter((b) => b.form === "text").map((b) => ({ label: b.label, text: b.text ?? "" })), { label: "", text: body?.message ?? "" }, { label: "Why it asks", text: body?.reason ?? "" }]} />
      {settled && <p className="text-sm text-soft">It was settled meanwhile and is left out.</p>}
      {changed && !item.closed && <p className="text-sm font-medium text-ink">It is not the one that was selected and is left out. Look at it again.</p>}
      {fate && <p data-testid={`fate-${summary.request_id}`} className={`text-sm font-medium ${!fate.done ? "text-ink" : item.outcome === "allowed" ? "text-green" : ""}`}>{fate.words}</p>}
    </li>
  );
}
