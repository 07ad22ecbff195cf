import { ArrowDown, CircleStop, Ellipsis, Hourglass, Pause, RotateCcw, Unplug } from "lucide-react";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { newId, pendingOf, type Session, type Transcript as Steps } from "@banksman/client";
import { useNow } from "../cards/useNow";
import { span } from "../cards/words";
import { useApp, useAppState } from "../ui/context";
import { useMoved } from "../ui/fresh";
import { Button, Notice, SureButton } from "../ui/controls";
import { isStarted, startAgain } from "./again";
import { Composer } from "./Composer";
import { Dock } from "./Dock";
import { sessionTitle } from "./SessionList";
import { modes, runtimeName } from "./modes";
import { Refused } from "./Refused";
import { Transcript } from "./Transcript";

export function SessionView({ sessionKey }: { sessionKey: string }) {
  const app = useApp();
  const state = useAppState();
  const now = useNow(state.offset);
  const session = state.sessions[sessionKey];
  const transcript = state.transcripts[sessionKey];
  const [typing, setTyping] = useState(false);
  useEffect(() => app.client.follow(sessionKey), [app, sessionKey]);

  const waiting = (session?.pending ?? []).filter((k) => state.items[k] && !state.items[k].closed);
  // One that is decided makes room for the next, under the finger that decided it.
  const moved = useMoved(waiting);
  const entries = transcript?.entries ?? [];
  const scroller = useRef<HTMLDivElement>(null);
  const [stick, setStick] = useState(true);
  useLayoutEffect(() => {
    const el = scroller.current;
    if (el && stick) el.scrollTop = el.scrollHeight;
  }, [entries, waiting.length, stick]);

  // The input below grows and shrinks; who reads the end keeps it in sight.
  useEffect(() => {
    const el = scroller.current;
    if (!el || !stick || typeof ResizeObserver === "undefined") return;
    const sizes = new ResizeObserver(() => { el.scrollTop = el.scrollHeight; });
    sizes.observe(el);
    return () => sizes.disconnect();
  }, [stick]);

  // Receipts of asks that the conversation does not hold in their place.
  const inPlace = new Set(entries.flatMap((e) => (e.kind === "ask" ? [e.request] : [])));
  const loose = Object.values(state.items)
    .filter((i) => i.closed && i.watched && i.summary.session_key === sessionKey && !inPlace.has(i.summary.request_id))
    .sort((a, b) => a.summary.created_at.localeCompare(b.summary.created_at));
  const all = [...entries, ...loose.map((i) => ({ kind: "ask" as const, id: `loose:${i.summary.key}`, key: i.summary.key, request: i.summary.request_id, headline: i.summary.headline, ended: true, trail: [], at: i.summary.created_at }))];
  const dead = session?.state === "dead";
  // Whether the agent ever came to a word.
  const ran = entries.some((e) => e.kind === "tool" || e.kind === "ask" || (e.kind === "text" && e.role === "assistant"));
  const failed = dead && !ran && !!session?.error;
  const told = entries.some((e) => e.kind === "note" && e.bad && e.text === session?.error);
  const program = !!session && isProgram(session);

  return (
    <div className="flex h-full min-h-0 flex-col">
      {session ? <Head session={session} /> : (
        <header className="flex-none border-b border-line px-4 py-3 md:px-0"><h1 className="mx-auto max-w-3xl font-semibold md:px-8">{state.snapshot === "loading" ? "Loading the session…" : isStarted(app, sessionKey) ? "New session" : "Unknown session"}</h1></header>
      )}
      <div className="relative min-h-0 flex-1">
        <div ref={scroller} data-testid="transcript" className="h-full overflow-y-auto" tabIndex={0} role="log" aria-live="off" aria-label="Conversation"
          onScroll={(e) => {
            const el = e.currentTarget;
            setStick(el.scrollHeight - el.scrollTop - el.clientHeight < 40);
          }}>
          <div className="mx-auto w-full max-w-3xl px-4 py-6 md:px-8">
            {session ? <Nothing session={session} transcript={transcript} /> : state.snapshot === "ready" && <Missing sessionKey={sessionKey} />}
            <Transcript entries={all} session={sessionKey} now={now} busy={session?.state === "assistant_turn" && waiting.length === 0 && !session.unreachable} follow={stick} />
            {session?.error && !told && <div className="mt-4"><Notice tone="strong" icon={<CircleStop size={16} />}><span className="verbatim">{session.error}</span></Notice></div>}
            {session && <Status session={session} now={now} />}
          </div>
        </div>
        {!stick && (
          <Button small onClick={() => setStick(true)} className="absolute bottom-3 left-1/2 -translate-x-1/2 shadow-card"><ArrowDown size={15} aria-hidden />To the end</Button>
        )}
      </div>
      {(session || waiting.length > 0) && (
        <Dock waiting={waiting} moved={moved} reading={!stick || (typing && !!app.drafts.load(`message:${sessionKey}`).text)}>
          {dead && waiting.length === 0 && (
            <div className="flex flex-wrap items-center justify-center gap-x-3 gap-y-1">
              <p className="text-sm text-soft">{failed ? "This session did not start." : "This session has ended."}</p>
              {!program && <Button small data-testid="start-again" onClick={() => startAgain(app, sessionKey, session, failed)}><RotateCcw size={15} aria-hidden />{failed ? "Change it and start again" : "Start another like it"}</Button>}
            </div>
          )}
          {program && !dead && waiting.length === 0 && <p className="py-2 text-center text-sm text-soft">A program asks here. It takes answers, no messages.</p>}
          {/* Whoever is typing keeps the field until they leave it: no key of theirs goes astray. */}
          {!dead && !program && (waiting.length === 0 || typing) && <Composer key={sessionKey} session={sessionKey} blocked={waiting.length > 0} onFocusChange={setTyping} />}
        </Dock>
      )}
    </div>
  );
}

/** Asks of scripts and other programs form a session too, one that nobody steers from here. */
function isProgram(s: Session): boolean {
  return s.runtime === "" || s.runtime === "program";
}

/** Why there is no step to read yet. */
function Nothing({ session, transcript }: { session: Session; transcript: Steps | undefined }) {
  if (transcript && transcript.entries.length > 0) return null;
  // One that never ran has no conversation, and never will.
  if (session.state === "dead" && session.error) return null;
  if (isProgram(session)) return null;
  if (!transcript || transcript.loading) return <p role="status" className="text-sm text-soft">Loading the conversation…</p>;
  return null;
}

/** The server lists no such session: it waits for a worker, or nobody knows it. */
function Missing({ sessionKey }: { sessionKey: string }) {
  const app = useApp();
  const state = useAppState();
  if (!isStarted(app, sessionKey)) {
    return <p data-testid="session-missing" className="text-soft">The server lists no session of this name. It may be older than what the server keeps, or not yours to see. <a href="#/sessions" className="font-medium text-accent underline-offset-2 hover:underline">All sessions</a></p>;
  }
  return (
    <div data-testid="session-queued" className="space-y-3">
      <Notice tone="neutral" icon={<Hourglass size={16} />}>
        <p role="status" className="font-medium text-ink">Waiting for a worker to take it.</p>
        <p className="mt-1">{state.runtimes.length > 0 ? "It is in the queue and begins by itself as soon as a worker is free. You can leave this page." : "No worker is connected. It is in the queue and begins by itself when one comes: “banksman up” brings one, where it runs."}</p>
      </Notice>
      <Button small data-testid="start-again" onClick={() => startAgain(app, sessionKey, undefined, true)}><RotateCcw size={15} aria-hidden />Open its form again</Button>
    </div>
  );
}

function Head({ session }: { session: Session }) {
  const app = useApp();
  const state = useAppState();
  const online = state.conn.status === "online";
  const [problem, setProblem] = useState("");
  const [sure, setSure] = useState(false);
  const [more, setMore] = useState(false);
  const [wish, setWish] = useState(""); // a mode that is chosen and not confirmed
  const dead = session.state === "dead";
  const waits = session.pending.some((k) => !state.items[k]?.closed);
  const command = (type: "interrupt" | "stop_session" | "set_mode", mode?: string) => {
    setProblem("");
    return app.command({ type, session_id: session.session_key, command_id: newId(), ...(mode === undefined ? {} : { mode }) }).then((r) => {
      if (r.status !== "accepted" && r.status !== "duplicate") setProblem(r.error ?? "The worker did not take it.");
    });
  };
  const interrupting = useRef(false);
  const interrupt = (presses: number) => {
    // The second press of a double one would end whatever comes next.
    if (interrupting.current || presses > 1) return;
    interrupting.current = true;
    void command("interrupt").finally(() => { interrupting.current = false; });
  };
  const offered = modes.some((m) => m.value === (session.mode || "default")) ? modes : [...modes, { value: session.mode ?? "", label: session.mode ?? "", note: "" }];
  const wished = offered.find((m) => m.value === wish);
  const choose = (mode: string) => {
    const loose = modes.some((m) => m.value === mode && m.loose) && mode !== session.mode;
    setWish(loose ? mode : "");
    if (!loose && mode !== (session.mode || "default")) void command("set_mode", mode);
  };
  const onPhone = more ? "" : "max-md:hidden";
  return (
    <header className="flex-none border-b border-line px-4 py-2.5 md:px-0">
      <div className="mx-auto flex max-w-3xl flex-wrap items-center gap-x-3 gap-y-1.5 md:px-8">
        <div className="min-w-0 flex-1 md:basis-48">
          <h1 className="line-clamp-2 font-semibold [overflow-wrap:anywhere]" title={sessionTitle(session)}>{sessionTitle(session)}</h1>
          <p className="truncate text-[13px] text-soft" title={session.cwd}>{[runtimeName(session.runtime), session.model, session.cwd].filter(Boolean).join(" · ")}</p>
        </div>
        {!dead && !isProgram(session) && (
          <>
            <Button small data-testid="interrupt" disabled={!online || (session.state === "user_turn" && !waits)} onClick={(e) => interrupt(e.detail)} title="Stop this turn; the session goes on" className="md:order-2"><Pause size={15} aria-hidden /><span className="max-md:sr-only">Interrupt</span></Button>
            <Button small look="quiet" data-testid="session-more" aria-label="Mode and end" aria-expanded={more} onClick={() => { setMore(!more); setSure(false); }} className="md:hidden"><Ellipsis size={18} aria-hidden /></Button>
            <i aria-hidden className={`h-0 basis-full md:hidden ${onPhone}`} />
            <select aria-label="Permission mode" title="Permission mode" data-testid="session-mode" value={wish || session.mode || "default"} disabled={!online} onChange={(e) => choose(e.target.value)} className={`min-h-9 max-w-36 rounded-lg border border-edge/60 bg-card px-2 text-sm max-md:min-h-11 max-md:max-w-none max-md:flex-1 md:order-1 ${onPhone}`}>
              {offered.map((m) => <option key={m.value} value={m.value}>{m.label}</option>)}
            </select>
            <span className={`md:order-3 ${onPhone}`}>
              {sure ? (
                <SureButton small look="danger" data-testid="stop-sure" disabled={!online} onBlur={() => setSure(false)} autoFocus onClick={() => { setSure(false); void command("stop_session"); }}>End it for good</SureButton>
              ) : (
                <Button small look="quiet" data-testid="stop" disabled={!online} onClick={() => setSure(true)} title="End this session"><CircleStop size={15} aria-hidden />Stop</Button>
              )}
            </span>
          </>
        )}
      </div>
      {wished && !dead && (
        <div role="group" aria-label="Change the mode" data-testid="mode-ask" className="mx-auto flex max-w-3xl flex-wrap items-center gap-2 pt-1.5">
          <p role="alert" className="min-w-0 flex-1 text-sm font-medium">{wished.label}: {wished.note}</p>
          <Button small look="quiet" onClick={() => setWish("")}>Leave it as it is</Button>
          <SureButton key={wish} small look="danger" data-testid="mode-sure" disabled={!online} onClick={() => { setWish(""); void command("set_mode", wish); }}>Change to it</SureButton>
        </div>
      )}
      {problem !== "" && <Refused className="mx-auto max-w-3xl pt-1" words={problem} />}
      {session.unreachable && !dead && <p className="mx-auto flex max-w-3xl items-start gap-2 pt-1 text-sm font-medium text-ink"><Unplug size={15} aria-hidden className="mt-0.5 flex-none" />The worker does not answer at the moment. Your answers are still taken and reach it when it is back.</p>}
    </header>
  );
}

/** Never "thinking" while it waits for a person. */
function Status({ session, now }: { session: Session; now: number }) {
  const state = useAppState();
  const waiting = pendingOf(state, session.session_key);
  let text = "";
  if (waiting) {
    const age = now - Date.parse(waiting.summary.created_at);
    text = age < 60_000 ? "Waiting for you" : `Waiting for you, ${span(age)}`;
  }
  else if (session.unreachable) return null;
  else if (session.state === "assistant_turn") text = "Working…";
  else if (session.state === "starting") text = "Starting…";
  if (text === "") return null;
  return <p data-testid="session-status" className={`mt-4 flex items-center gap-2 text-sm ${waiting ? "font-medium text-ink" : "text-faint"}`}>{waiting && <span className="wait-dot" aria-hidden />}{text}</p>;
}
