// The frame of every interaction: headline, who, risk, the kind's own part,
// times, state, and the receipt it becomes.
import { CircleAlert, Clock, Info, LockKeyhole, OctagonAlert, RefreshCw, ShieldCheck, TriangleAlert, Unplug, WifiOff } from "lucide-react";
import { memo, type ReactNode, Suspense, useEffect, useLayoutEffect, useRef, useState } from "react";
import { cardState, type CardState, draftText, type Item, refused, type Send, type Summary } from "@banksman/client";
import { useNotifier } from "../store/helpers";
import { useAppState, useCards } from "../ui/context";
import { Button, Chip, Notice, type Tone } from "../ui/controls";
import { useFocusOver, useKeptFocus } from "../ui/place";
import { ErrorBoundary } from "../ui/ErrorBoundary";
import { interactionHref, keepPlace } from "../ui/route";
import { ApprovalCard } from "./ApprovalCard";
import { Verbatim } from "./blocks";
import { type CardKeys, useCardKeys } from "./keys";
import type { Renderer } from "./kinds";
import { Others } from "./Others";
import { Ordered } from "./unseen";
import { Receipt, Unsent, Whole } from "./Receipt";
import { useDraft } from "./useDraft";
import { useNow } from "./useNow";
import { useOnScreen } from "./useOnScreen";
import { FormCard, QuestionCard } from "./wanted";
import { atDeadline, clock, origin, receiptLine, span, waitsFor } from "./words";

/** A renderer for each kind; what is not here is shown raw and cannot be approved. */
export const renderers: Record<string, Renderer> = {
  approval: ApprovalCard,
  question: QuestionCard,
  form: FormCard,
};

function rendererFor(s: Summary): { View: Renderer; known: boolean } {
  const View = Object.hasOwn(renderers, s.kind) ? renderers[s.kind] : undefined;
  if (!View || (s.kind === "question" && s.body && (s.body.questions ?? []).length === 0)) return { View: ApprovalCard, known: false };
  return { View, known: true };
}

export function Card({ itemKey, showSession = true }: { itemKey: string; showSession?: boolean }) {
  const state = useAppState();
  const item = state.items[itemKey];
  if (!item) return null;
  const session = state.sessions[item.summary.session_key];
  return (
    <ErrorBoundary key={itemKey} fallback={(error, again) => <Broken item={item} error={error} again={again} />}>
      <CardBody
        item={item} send={state.sends[itemKey]} card={cardState(state, itemKey)} showSession={showSession} offset={state.offset} offline={state.conn.status !== "online"}
        known={session !== undefined} title={session?.title} gone={session?.unreachable ?? false}
      />
    </ErrorBoundary>
  );
}

/** What cannot be drawn is shown as it came, and can still be refused. */
function Broken({ item, error, again }: { item: Item; error: Error; again: () => void }) {
  const app = useCards();
  const state = useAppState();
  const { summary } = item;
  const { key } = summary;
  const card = cardState(state, key);
  const off = card === "sending" || state.conn.status !== "online";
  const approval = summary.kind !== "question" && summary.kind !== "form";
  return (
    <article data-card data-testid={`card-${summary.request_id}`} data-state={item.closed ? card : "broken"} className="space-y-3 rounded-2xl border border-line bg-card p-5">
      {item.closed
        ? <p className="font-medium">{receiptLine(summary.kind, item.outcome, item.decision, card === "confirmed", card === "lost", Date.now() + state.offset, item.load)}. The rest cannot be drawn here.</p>
        : <Notice tone="strong" icon={<CircleAlert size={16} />}>
          <p className="font-medium">This request cannot be drawn here. It still waits, and nothing was decided.</p>
          <p className="verbatim">{error.message}</p>
        </Notice>}
      <p className="verbatim font-medium">{String(summary.headline)}</p>
      <pre tabIndex={0} role="group" aria-label="The request as it came" className="verbatim max-h-80 overflow-y-auto rounded-xl bg-code px-4 py-3 font-mono text-[13px] leading-5 text-code-ink">{raw(summary)}</pre>
      {!item.closed && (
        <div className="flex flex-wrap items-center gap-2">
          {!mayNothing(summary) && <Button data-testid="deny" disabled={off} busy={card === "sending"} onClick={() => app.respond(key, approval ? { decision: "deny" } : { action: "dismiss" })}>{approval ? "Deny" : "Dismiss"}</Button>}
          <Button look="quiet" onClick={again}>Try to draw it again</Button>
        </div>
      )}
    </article>
  );
}

function raw(s: Summary): string {
  try {
    return s.body?.input || s.tool_input || JSON.stringify(s.body ?? s, null, 2);
  } catch {
    return "";
  }
}

interface BodyProps {
  item: Item;
  send: Send | undefined;
  card: CardState;
  showSession: boolean;
  /** Of the state, what a card depends on. */
  offset: number;
  offline: boolean;
  /** Of its session. */
  known: boolean;
  title: string | undefined;
  gone: boolean;
}

/** Drawn anew only when something of its own changed: of many on a screen mostly one does. */
const CardBody = memo(function CardBody({ item, send, card, showSession, offset, offline, known: hasSession, title, gone }: BodyProps) {
  const app = useCards();
  const { summary } = item;
  const { key } = summary;
  const now = useNow(offset, item.closed ? undefined : summary.expires_at);
  const [draft, setDraft] = useDraft(key);
  const keys = useRef<CardKeys>({});
  const handlers = useCardKeys(() => (item.closed || mayNothing(item.summary) ? {} : keys.current));
  const hold = useHeldHeight(item.closed);
  useKeptFocus(hold.ref, card === "sending");
  useOnScreen(hold.ref, key, !item.closed);

  const needsBody = !item.closed && !summary.body && item.load === "idle";
  useEffect(() => {
    if (needsBody) void app.client.load(key);
  }, [needsBody, app, key]);
  const mine = card === "confirmed";
  const said = mine ? (item.decision ?? send?.frame) : undefined;
  useEffect(() => {
    if (said) app.drafts.sent(key, said, summary.body?.input);
    // Once: what is said does not change.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [app, said === undefined, key]);

  const unreachable = gone || (summary.unreachable ?? false);
  const { View, known } = rendererFor(summary);
  const barred = mayNothing(summary);
  const notes = <><Standing summary={summary} card={card} send={send} offline={offline} unreachable={unreachable} /><Times summary={summary} now={now} /></>;
  const attributes = { "data-card": "", "data-testid": `card-${summary.request_id}`, "data-state": card, "data-kind": summary.kind, "data-unreachable": unreachable || undefined };

  if (item.closed) {
    return (
      <article {...attributes} {...handlers} {...hold} tabIndex={-1} aria-label={summary.headline} className="rounded-2xl">
        <div className="rounded-2xl border border-line bg-card/60 px-5 py-4">
          <Receipt item={item} me={mine} lost={card === "lost"} sent={send && !refused(send) ? send.frame : undefined} now={now} where={showSession ? origin(summary, title).join(" · ") : undefined} />
        </div>
      </article>
    );
  }
  return (
    <article {...attributes} {...handlers} ref={hold.ref} tabIndex={0} aria-label={summary.headline} className="enter scroll-mt-4 scroll-mb-24 rounded-2xl border border-line bg-card shadow-card">
      <div className="space-y-4 p-5 max-md:p-4">
        <header className="space-y-1.5">
          <h2 className="verbatim min-w-0 text-[17px] leading-6 font-medium"><Ordered text={summary.headline} /></h2>
          <p className="verbatim flex flex-wrap items-center gap-x-3 gap-y-1.5 text-sm text-soft">
            {(summary.kind === "approval" || summary.risk !== "low") && <Risk summary={summary} />}
            <Left summary={summary} now={now} />
            <Why summary={summary} />
          </p>
          <p className="verbatim text-sm text-soft">
            {origin(summary, title).map((part, i) => (
              <span key={i}>{i > 0 && <>{" "}<span aria-hidden className="px-0.5 text-faint">·</span>{" "}</>}<Verbatim text={part} /></span>
            ))}
            {showSession && hasSession && (
              <a {...app.sessionLink(summary.session_key)} className="ml-2 inline-block text-accent underline-offset-2 hover:underline">Open session</a>
            )}
          </p>
        </header>
        {!known && !barred && <Notice tone="strong" icon={<Info size={16} />}>This page does not know requests of the kind “{summary.kind}”. It shows all of it as it came; it can be denied or dismissed, not approved.</Notice>}
        {!summary.body && (item.load === "failed" || item.load === "missing" ? (
          <Notice tone="strong" icon={<CircleAlert size={16} />}>The whole request could not be fetched. <Button small className="ml-2" onClick={() => void app.client.load(key)}><RefreshCw size={14} aria-hidden />Fetch it again</Button></Notice>
        ) : (
          <p role="status" className="text-sm text-soft">Fetching the whole request…</p>
        ))}
        {barred ? <Barred item={item} kept={draftText(draft)}>{notes}</Barred> : <Suspense key={summary.digest} fallback={<p role="status" className="text-sm text-soft">Loading…</p>}><View
          item={known ? item : withoutAllow(item)} send={send} busy={card === "sending"} offline={offline} draft={draft} setDraft={setDraft}
          respond={(say) => app.respond(key, say)} bindKeys={(k) => { keys.current = k; }}
          notes={notes}
        /></Suspense>}
        <Others requestKey={key} />
      </div>
    </article>
  );
});

/** Whether the server gives this person no way to decide it. */
function mayNothing(s: Summary): boolean {
  return s.body !== undefined && (s.body.verbs ?? []).length === 0;
}

/** For whoever may look and not decide: what they may see of it, and why there is no button. */
function Barred({ item, kept, children }: { item: Item; kept: string; children: ReactNode }) {
  return (
    <div className="space-y-4">
      <Whole item={item} />
      {children}
      <p data-testid="barred" className="flex items-start gap-2 text-sm text-soft"><LockKeyhole size={15} aria-hidden className="mt-0.5 flex-none" />You may see that this request waits, and not decide it: your role does not reach it. It waits for somebody whose role does.</p>
      <Unsent itemKey={item.summary.key} text={kept} />
    </div>
  );
}

function withoutAllow(item: Item): Item {
  const { summary } = item;
  if (!summary.body) return item;
  const verbs = (summary.body.verbs ?? []).filter((v) => v !== "allow");
  const raw = (summary.body.blocks ?? []).length === 0 && summary.tool_input ? [{ label: "Input", form: "json", text: summary.tool_input }] : summary.body.blocks;
  return { ...item, summary: { ...summary, body: { ...summary.body, verbs, blocks: raw } } };
}

/** Where an answer of ours stands, and what is in its way. */
function Standing({ summary, card, send, offline, unreachable }: { summary: Summary; card: CardState; send: Send | undefined; offline: boolean; unreachable: boolean }) {
  const fields = (summary.body?.fields ?? []).map((f) => `content.${f.name}`);
  const notes: ReactNode[] = [];
  if (card === "sending") notes.push(<p key="sending" role="status" className="text-sm text-soft">Sent. Waiting for the server’s word…</p>);
  if (card === "unsure") notes.push(
    <Notice key="unsure" tone="strong" icon={<Clock size={16} />}>{send?.status === "unavailable" ? `The server could not store it${send.error ? `: ${send.error}` : ""}. ` : "No word from the server yet. "}You can send it again: it counts only once.</Notice>,
  );
  if (card === "refused") notes.push(
    <Notice key="refused" tone="strong" icon={<CircleAlert size={16} />}>
      {asksProof(send) ? <Proof summary={summary} /> : <p className="font-medium">{refusal(send)}</p>}
      {/* A form's fields say theirs themselves. */}
      {send?.fields?.filter((f) => !fields.includes(f.field)).map((f) => <p key={f.field} className="verbatim"><code className="font-mono text-[13px]">{f.field}</code> {f.problem}</p>)}
    </Notice>,
  );
  if (offline) notes.push(<Notice key="offline" tone="strong" icon={<WifiOff size={16} />}>No connection to the server. Decisions are off until it is back; what you wrote is kept.</Notice>);
  if (unreachable) notes.push(<Notice key="unreachable" tone="strong" icon={<Unplug size={16} />}>The agent cannot be reached at the moment. You can still answer; it gets the answer when it is back.</Notice>);
  return notes.length > 0 ? <div className="space-y-2">{notes}</div> : null;
}

const PROOF = "/signin.html#proof"; // the server names it where a passkey is wanted

function asksProof(send: Send | undefined): boolean {
  return send?.status === "forbidden" && (send.error ?? "").includes(PROOF);
}

/** The way to the passkey that a critical request wants, and back to the request. */
function Proof({ summary }: { summary: Summary }) {
  const app = useCards();
  const { href, ...how } = app.sessionLink(summary.session_key);
  return (
    <>
      <p className="font-medium">Not sent yet: a request of critical risk takes your passkey. It counts for five minutes. What you wrote is kept.</p>
      <a data-testid="proof" {...how} href={new URL(PROOF, new URL(href, location.href)).href} onClick={() => { if (!app.embedded) keepPlace(interactionHref(summary.key), Date.now()); }}
        className="mt-2 inline-flex min-h-9 items-center rounded-lg border border-edge/60 bg-card px-3 font-medium text-ink hover:bg-sunk max-md:min-h-11">Confirm with your passkey</a>
    </>
  );
}

function refusal(send: Send | undefined): string {
  switch (send?.status) {
    case "forbidden": {
      const why = send.error ? `: ${send.error}` : "";
      // Who is not known well enough may still say no.
      if (send.fields?.some((f) => f.field === "assurance")) return `Not taken${why}. It still waits, and you can still deny it.`;
      return `You may not decide this${why}. It waits for somebody else; what you wrote is kept.`;
    }
    case "digest_mismatch": return "What was shown of it is not what the server says now. It is shown anew; look at it again, then decide. What you wrote is kept.";
    case "not_found": return "The server does not know this request any more, so nobody can decide it. If the agent asks again, that is a new card. What you wrote is kept.";
    default: return `Not taken${send?.error ? `: ${send.error}` : ""}. The request still waits.`;
  }
}

const risks: Record<string, { icon: ReactNode; word: string }> = {
  low: { icon: <ShieldCheck size={14} aria-hidden />, word: "Low risk" },
  medium: { icon: <Info size={14} aria-hidden />, word: "Medium risk" },
  high: { icon: <TriangleAlert size={14} aria-hidden />, word: "High risk" },
  critical: { icon: <OctagonAlert size={14} aria-hidden />, word: "Critical risk" },
};

/** How bad, and why. Red is for what cannot be undone, and for nothing else. */
function Risk({ summary }: { summary: Summary }) {
  const { risk, irreversible } = summary;
  const r = Object.hasOwn(risks, risk) ? risks[risk] : undefined;
  if (!r && !risk) return null;
  const bad = risk === "high" || risk === "critical";
  const tone: Tone = bad && irreversible ? "red" : bad ? "strong" : "neutral";
  return <Chip tone={tone}>{r?.icon}{r?.word ?? risk}{bad && irreversible ? ", cannot be undone" : ""}</Chip>;
}

/** Why it has its risk, where neither the headline nor the list of its parts says so. */
function Why({ summary }: { summary: Summary }) {
  const reason = summary.risk_reason;
  if (!reason || summary.headline.endsWith(reason) || (summary.body?.parts ?? []).some((p) => p.risk_reason === reason)) return null;
  return <span className="min-w-0 first-letter:uppercase"><Verbatim text={reason} /></span>;
}

/** The rest of the time, where it is seen without scrolling. */
function Left({ summary, now }: { summary: Summary; now: number }) {
  if (!summary.expires_at) return null;
  const left = Date.parse(summary.expires_at) - now;
  const soon = left < SOON;
  return (
    <span data-testid="time-left-short" className={`inline-flex items-center gap-1 whitespace-nowrap ${soon ? "font-semibold text-amber" : ""}`}>
      <Clock size={14} aria-hidden />{left > 0 ? `${span(left)} left` : "time is up"}
    </span>
  );
}

/** When the rest of the time is told in another colour, in milliseconds. */
const SOON = 120_000;

function Times({ summary, now }: { summary: Summary; now: number }) {
  const left = summary.expires_at ? Date.parse(summary.expires_at) - now : undefined;
  const soon = left !== undefined && left < SOON;
  return (
    <p className="text-[13px] text-faint">
      <span className="wait-dot mr-2 inline-block" aria-hidden />
      <span>Asked {clock(summary.created_at, now)}, {waitsFor(summary.created_at, now)}.</span>{" "}
      {left === undefined && <span>It waits for you without a deadline.</span>}
      {left !== undefined && left > 0 && (
        <span className={soon ? "font-semibold text-amber" : ""}>
          {soon && <Clock size={14} aria-hidden className="mr-1 inline-block align-[-2px]" />}
          Waits until {clock(summary.expires_at!, now)} (<span data-testid="time-left">{span(left)}</span> left), {atDeadline(summary.kind)}.
        </span>
      )}
      {left !== undefined && left <= 0 && <span className="font-semibold text-amber">Its time is up; the server has the word.</span>}
      {summary.attention_at && Date.parse(summary.attention_at) > now && <Reminder at={clock(summary.attention_at, now)} />}
      {(summary.attempt ?? 0) > 1 && <span> Asked again: try {summary.attempt}.</span>}
    </p>
  );
}

/** What becomes of the moment at which an answer gets urgent. */
function Reminder({ at }: { at: string }) {
  switch (useNotifier()) {
    case "listening": return <span> It becomes urgent {at}: a notifier is there and reminds whom its settings name.</span>;
    case "silent": return <span> It becomes urgent {at}, and no notifier is there: nobody is reminded.</span>;
    default: return <span> A reminder is due {at}, where alerts are set up.</span>;
  }
}

/**
 * Keeps a card's room when it turns into its receipt, as long as the pointer is
 * in it: what comes next must not slide under a finger that taps twice.
 */
function useHeldHeight(closed: boolean) {
  const ref = useRef<HTMLElement>(null);
  const height = useRef(0);
  const inside = useRef(false);
  const [held, setHeld] = useState<number | undefined>(undefined);
  const was = useRef(closed);
  useFocusOver(ref, closed);
  // Asked while the old content still stands: afterwards its height is lost.
  if (closed && !was.current) height.current = ref.current?.offsetHeight ?? 0;
  useLayoutEffect(() => {
    if (closed && !was.current) {
      was.current = true;
      inside.current = ref.current?.matches(":hover") ?? false;
      setHeld(height.current);
    }
  });
  useEffect(() => {
    if (held === undefined) return;
    const timer = setTimeout(() => { if (!inside.current) setHeld(undefined); }, 700);
    return () => clearTimeout(timer);
  }, [held]);
  return {
    ref,
    style: held === undefined ? undefined : { minHeight: held },
    onPointerLeave: () => {
      inside.current = false;
      setHeld(undefined);
    },
  };
}
