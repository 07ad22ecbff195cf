import { ArrowDown, CircleStop, Pause, Unplug } from "lucide-react";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { newId, pendingOf, type Session } from "@banksman/client";
import { Card } from "../cards/Card";
import { useNow } from "../cards/useNow";
import { span } from "../cards/words";
import { useApp, useAppState } from "../ui/context";
import { Button, Notice } from "../ui/controls";
import { Composer } from "./Composer";
import { sessionTitle } from "./SessionList";
import { modes } from "./modes";
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
  const entries = transcript?.entries ?? [];
  const scroller = useRef<HTMLDivElement>(null);
  const [stick, setStick] = useState(true);
  useLayoutEffect(() => {
    const el = scroller.current;
    if (el && stick) el.scrollTop = el.scrollHeight;
  }, [entries, waiting.length, stick]);

  // Receipts of asks that the conversation does not hold in their place.
  const inPlace = new Set(entries.flatMap((e) => (e.kind === "ask" ? [e.request] : [])));
  const loose = Object.values(state.items)
    .filter((i) => i.closed && i.watched && i.summary.session_key === sessionKey && !inPlace.has(i.summary.request_id))
    .sort((a, b) => a.summary.created_at.localeCompare(b.summary.created_at));
  const all = [...entries, ...loose.map((i) => ({ kind: "ask" as const, id: `loose:${i.summary.key}`, key: i.summary.key, request: i.summary.request_id, headline: i.summary.headline, ended: true, trail: [], at: i.summary.created_at }))];
  const dead = session?.state === "dead";

  return (
    <div className="flex h-full min-h-0 flex-col">
      {session ? <Head session={session} /> : (
        <header className="border-b border-line px-4 py-3 text-soft md:px-8">{state.snapshot === "loading" ? "Loading the session…" : "The server does not list this session yet, or no longer."}</header>
      )}
      <div className="relative min-h-0 flex-1">
        <div ref={scroller} data-testid="transcript" className="h-full overflow-y-auto" tabIndex={0} role="log" aria-live="off" aria-label="Conversation"
          onScroll={(e) => {
            const el = e.currentTarget;
            setStick(el.scrollHeight - el.scrollTop - el.clientHeight < 40);
          }}>
          <div className="mx-auto w-full max-w-3xl px-4 py-6 md:px-8">
            {transcript?.loading && entries.length === 0 && <p role="status" className="text-sm text-faint">{transcript.missing ? "No worker has taken this session yet. It appears here as soon as one does." : "Loading the conversation…"}</p>}
            <Transcript entries={all} session={sessionKey} now={now} />
            {session?.error && <div className="mt-4"><Notice tone="amber" icon={<CircleStop size={16} />}><span className="verbatim">{session.error}</span></Notice></div>}
            {session && <Status session={session} now={now} />}
          </div>
        </div>
        {!stick && (
          <Button small onClick={() => setStick(true)} className="absolute bottom-3 left-1/2 -translate-x-1/2 shadow-card"><ArrowDown size={15} aria-hidden />To the end</Button>
        )}
      </div>
      <div data-scroll className={`flex-none border-t border-line bg-page ${waiting.length > 0 ? "max-h-[78%] overflow-y-auto" : ""}`}>
        <div className="mx-auto w-full max-w-3xl space-y-3 px-4 py-3 md:px-8">
          {waiting.map((k) => <Card key={k} itemKey={k} showSession={false} />)}
          {/* Whoever is typing keeps the field until they leave it: no key of theirs goes astray. */}
          {(waiting.length === 0 || typing) && <Composer key={sessionKey} session={sessionKey} blocked={waiting.length > 0} closed={dead ? "This session has ended." : session && isProgram(session) ? "A program asks here. It takes answers, no messages." : ""} onFocusChange={setTyping} />}
        </div>
      </div>
    </div>
  );
}

/** Asks of scripts and other programs form a session too, one that nobody steers from here. */
function isProgram(s: Session): boolean {
  return s.runtime === "" || s.runtime === "program";
}

function Head({ session }: { session: Session }) {
  const app = useApp();
  const state = useAppState();
  const online = state.conn.status === "online";
  const [problem, setProblem] = useState("");
  const [sure, setSure] = useState(false);
  const dead = session.state === "dead";
  const command = (type: "interrupt" | "stop_session" | "set_mode", mode?: string) => {
    setProblem("");
    void app.command({ type, session_id: session.session_key, command_id: newId(), ...(mode === undefined ? {} : { mode }) }).then((r) => {
      if (r.status !== "accepted" && r.status !== "duplicate") setProblem(r.error ?? "The worker did not take it.");
    });
  };
  const offered = modes.some((m) => m.value === (session.mode || "default")) ? modes : [...modes, { value: session.mode ?? "", label: session.mode ?? "", note: "" }];
  return (
    <header className="flex-none border-b border-line px-4 py-2.5 md:px-8">
      <div className="mx-auto flex max-w-3xl flex-wrap items-center gap-x-3 gap-y-1.5">
        <div className="min-w-0 flex-1 md:basis-48">
          <h1 className="truncate font-semibold" title={sessionTitle(session)}>{sessionTitle(session)}</h1>
          <p className="truncate text-[13px] text-faint" title={session.cwd}>{[session.owner, session.runtime, session.model, session.cwd].filter(Boolean).join(" · ")}</p>
        </div>
        {!dead && !isProgram(session) && (
          <>
            <select aria-label="Permission mode" title="Permission mode" data-testid="session-mode" value={session.mode || "default"} disabled={!online} onChange={(e) => command("set_mode", e.target.value)} className="min-h-9 max-w-36 rounded-lg border border-edge/60 bg-card px-2 text-sm max-md:min-h-11">
              {offered.map((m) => <option key={m.value} value={m.value}>{m.label}</option>)}
            </select>
            <Button small data-testid="interrupt" disabled={!online} onClick={() => command("interrupt")} title="Stop this turn; the session goes on"><Pause size={15} aria-hidden /><span className="max-md:sr-only">Interrupt</span></Button>
            {sure ? (
              <Button small look="danger" data-testid="stop-sure" disabled={!online} onBlur={() => setSure(false)} autoFocus onClick={() => { setSure(false); command("stop_session"); }}>End it for good</Button>
            ) : (
              <Button small look="quiet" data-testid="stop" disabled={!online} onClick={() => setSure(true)} title="End this session"><CircleStop size={15} aria-hidden /><span className="max-md:sr-only">Stop</span></Button>
            )}
          </>
        )}
      </div>
      {problem !== "" && <p role="alert" className="mx-auto max-w-3xl pt-1 text-sm text-amber">{problem}</p>}
      {session.unreachable && !dead && <p className="mx-auto flex max-w-3xl items-center gap-2 pt-1 text-sm text-amber"><Unplug size={15} aria-hidden />The worker does not answer at the moment. Your answers are still taken and reach it when it is back.</p>}
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
  return <p data-testid="session-status" className={`mt-4 flex items-center gap-2 text-sm ${waiting ? "font-medium text-amber" : "text-faint"}`}>{text}</p>;
}
