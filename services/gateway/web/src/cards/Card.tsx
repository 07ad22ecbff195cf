// The frame of every interaction: headline, who, risk, the kind's own part,
// times, state, and the receipt it becomes.
import { CircleAlert, Clock, Info, OctagonAlert, RefreshCw, ShieldCheck, TriangleAlert, Unplug, WifiOff } from "lucide-react";
import { type ReactNode, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { cardState, type CardState, type Draft, type Item, type Send, type Summary } from "@banksman/client";
import { useAppState, useCards } from "../ui/context";
import { Button, Chip, Notice, type Tone } from "../ui/controls";
import { focusedIn } from "../ui/place";
import { ErrorBoundary } from "../ui/ErrorBoundary";
import { ApprovalCard } from "./ApprovalCard";
import { Verbatim } from "./blocks";
import { FormCard } from "./FormCard";
import { type CardKeys, useCardKeys } from "./keys";
import type { Renderer } from "./kinds";
import { QuestionCard } from "./QuestionCard";
import { Receipt } from "./Receipt";
import { useNow } from "./useNow";
import { atDeadline, clock, origin, span, waitsFor } from "./words";

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
  return (
    <ErrorBoundary fallback={(error, again) => <Broken item={item} error={error} again={again} />}>
      <CardBody item={item} send={state.sends[itemKey]} card={cardState(state, itemKey)} showSession={showSession} />
    </ErrorBoundary>
  );
}

function Broken({ item, error, again }: { item: Item; error: Error; again: () => void }) {
  return (
    <article data-card data-testid={`card-${item.summary.request_id}`} data-state="broken" className="rounded-2xl border border-line bg-card p-5">
      <Notice tone="amber" icon={<CircleAlert size={16} />}>
        <p className="font-medium">This request cannot be drawn here. It still waits, and nothing was decided.</p>
        <p className="verbatim">{item.summary.headline} ({error.message})</p>
        <Button small className="mt-2" onClick={again}>Try again</Button>
      </Notice>
    </article>
  );
}

function CardBody({ item, send, card, showSession }: { item: Item; send: Send | undefined; card: CardState; showSession: boolean }) {
  const app = useCards();
  const state = useAppState();
  const { summary } = item;
  const { key } = summary;
  const session = state.sessions[summary.session_key];
  const now = useNow(state.offset, item.closed ? undefined : summary.expires_at);
  const [draft, setDraftState] = useState<Draft>(() => app.drafts.load(key));
  const latest = useRef(draft);
  const setDraft = useCallback((change: Partial<Draft>) => {
    latest.current = { ...latest.current, ...change };
    app.drafts.save(key, latest.current);
    setDraftState(latest.current);
  }, [app, key]);
  const keys = useRef<CardKeys>({});
  const handlers = useCardKeys(() => (item.closed ? {} : keys.current));
  const hold = useHeldHeight(item.closed);

  const needsBody = !item.closed && !summary.body && item.load === "idle";
  useEffect(() => {
    if (needsBody) void app.client.load(key);
  }, [needsBody, app, key]);
  const mine = card === "confirmed";
  useEffect(() => {
    if (mine) app.drafts.drop(key);
  }, [app, mine, key]);

  const offline = state.conn.status !== "online";
  const unreachable = (session?.unreachable ?? false) || (summary.unreachable ?? false);
  const { View, known } = rendererFor(summary);
  const attributes = { "data-card": "", "data-testid": `card-${summary.request_id}`, "data-state": card, "data-kind": summary.kind, "data-unreachable": unreachable || undefined };

  if (item.closed) {
    return (
      <article {...attributes} {...hold} tabIndex={-1} aria-label={summary.headline} className="rounded-2xl border border-line bg-card/60 px-5 py-4">
        <Receipt item={item} me={card === "confirmed"} lost={card === "lost"} now={now} where={showSession ? origin(summary, session?.title).join(" · ") : undefined} />
      </article>
    );
  }
  return (
    <article {...attributes} {...handlers} ref={hold.ref} tabIndex={0} aria-label={summary.headline} className="enter scroll-mt-4 scroll-mb-24 rounded-2xl border border-line bg-card shadow-card">
      <div className="space-y-4 p-5 max-md:p-4">
        <header className="space-y-1.5">
          <div className="flex flex-wrap items-start gap-x-3 gap-y-2">
            <h2 className="verbatim min-w-0 flex-1 basis-80 text-lg leading-6 font-semibold"><Verbatim text={summary.headline} /></h2>
            {(summary.kind === "approval" || summary.risk !== "low") && <Risk risk={summary.risk} />}
          </div>
          <p className="verbatim text-sm text-soft">
            {origin(summary, session?.title).map((part, i) => (
              <span key={i}>{i > 0 && <span aria-hidden className="px-1.5 text-faint">·</span>}<Verbatim text={part} /></span>
            ))}
            {showSession && session && (
              <a {...app.sessionLink(summary.session_key)} className="ml-2 inline-block text-accent underline-offset-2 hover:underline">Open session</a>
            )}
          </p>
          {summary.risk_reason && !summary.headline.endsWith(summary.risk_reason) && <p className="verbatim text-sm text-soft first-letter:uppercase"><Verbatim text={summary.risk_reason} /></p>}
        </header>
        {!known && <Notice tone="amber" icon={<Info size={16} />}>This page does not know requests of the kind “{summary.kind}”. It shows all of it as it came; it can be denied or dismissed, not approved.</Notice>}
        {!summary.body && (item.load === "failed" ? (
          <Notice tone="amber" icon={<CircleAlert size={16} />}>The whole request could not be fetched. <Button small className="ml-2" onClick={() => void app.client.load(key)}><RefreshCw size={14} aria-hidden />Fetch it again</Button></Notice>
        ) : (
          <p role="status" className="text-sm text-soft">Fetching the whole request…</p>
        ))}
        <View
          key={summary.digest} item={known ? item : withoutAllow(item)} send={send} busy={card === "sending"} offline={offline} draft={draft} setDraft={setDraft}
          respond={(say) => app.respond(key, say)} bindKeys={(k) => { keys.current = k; }}
          notes={<><Standing card={card} send={send} offline={offline} unreachable={unreachable} /><Times summary={summary} now={now} /></>}
        />
      </div>
    </article>
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
function Standing({ card, send, offline, unreachable }: { card: CardState; send: Send | undefined; offline: boolean; unreachable: boolean }) {
  const notes: ReactNode[] = [];
  if (card === "sending") notes.push(<p key="sending" role="status" className="text-sm text-soft">Sent. Waiting for the server’s word…</p>);
  if (card === "unsure") notes.push(
    <Notice key="unsure" tone="amber" icon={<Clock size={16} />}>{send?.status === "unavailable" ? `The server could not store it${send.error ? `: ${send.error}` : ""}. ` : "No word from the server yet. "}You can send it again: it counts only once.</Notice>,
  );
  if (card === "refused") notes.push(
    <Notice key="refused" tone="amber" icon={<CircleAlert size={16} />}>
      <p className="font-medium">{refusal(send)}</p>
      {send?.fields?.map((f) => <p key={f.field} className="verbatim"><code className="font-mono text-[13px]">{f.field}</code> {f.problem}</p>)}
    </Notice>,
  );
  if (offline) notes.push(<Notice key="offline" tone="amber" icon={<WifiOff size={16} />}>No connection to the server. Decisions are off until it is back; what you wrote is kept.</Notice>);
  if (unreachable) notes.push(<Notice key="unreachable" tone="amber" icon={<Unplug size={16} />}>The agent cannot be reached at the moment. You can still answer; it gets the answer when it is back.</Notice>);
  return notes.length > 0 ? <div className="space-y-2">{notes}</div> : null;
}

function refusal(send: Send | undefined): string {
  switch (send?.status) {
    case "forbidden": return `You may not decide this${send.error ? `: ${send.error}` : "."}`;
    case "digest_mismatch": return "The request is not the one that was shown. It is shown anew; look at it again.";
    case "not_found": return "The server does not know this request any more.";
    default: return `Not taken${send?.error ? `: ${send.error}` : ""}. The request still waits.`;
  }
}

const risks: Record<string, { tone: Tone; icon: ReactNode; word: string }> = {
  low: { tone: "neutral", icon: <ShieldCheck size={14} aria-hidden />, word: "Low risk" },
  medium: { tone: "neutral", icon: <Info size={14} aria-hidden />, word: "Medium risk" },
  high: { tone: "amber", icon: <TriangleAlert size={14} aria-hidden />, word: "High risk" },
  critical: { tone: "red", icon: <OctagonAlert size={14} aria-hidden />, word: "Critical risk" },
};

function Risk({ risk }: { risk: string }) {
  const r = Object.hasOwn(risks, risk) ? risks[risk] : undefined;
  if (!r) return risk ? <Chip>{risk}</Chip> : null;
  return <Chip tone={r.tone}>{r.icon}{r.word}</Chip>;
}

function Times({ summary, now }: { summary: Summary; now: number }) {
  const left = summary.expires_at ? Date.parse(summary.expires_at) - now : undefined;
  const soon = left !== undefined && left < 120_000;
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
      {(summary.attempt ?? 0) > 1 && <span> Asked again: try {summary.attempt}.</span>}
    </p>
  );
}

/**
 * Keeps a card's height when it turns into its receipt, as long as the pointer
 * is on it: what comes next must not slide under a finger that taps twice.
 */
function useHeldHeight(closed: boolean) {
  const ref = useRef<HTMLElement>(null);
  const height = useRef(0);
  const inside = useRef(false);
  const [held, setHeld] = useState<number | undefined>(undefined);
  const was = useRef(closed);
  const hadFocus = useRef(false);
  // Asked while the old content still stands: afterwards its focus is lost.
  if (closed && !was.current) hadFocus.current = ref.current?.contains(focusedIn(ref.current)) ?? false;
  useLayoutEffect(() => {
    if (!closed) height.current = ref.current?.offsetHeight ?? 0;
    if (closed && !was.current) {
      was.current = true;
      inside.current = ref.current?.matches(":hover") ?? false;
      setHeld(height.current);
      if (hadFocus.current) ref.current?.focus({ preventScroll: true });
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
