import { Plus } from "lucide-react";
import { pendingOf, type Session, type State } from "@banksman/client";
import { useAppState } from "../ui/context";
import { sessionHref } from "../ui/route";

const words: Record<string, string> = {
  starting: "starting",
  assistant_turn: "working",
  user_turn: "ready for you",
  dead: "ended",
};

export function sessionWord(state: State, s: Session): string {
  if (pendingOf(state, s.session_key)) return "waiting for your answer";
  if (s.unreachable && s.state !== "dead") return "unreachable";
  return words[s.state] ?? s.state;
}

export function sessionTitle(s: Session): string {
  return s.title || s.session_id;
}

export function SessionList({ current }: { current: string }) {
  const state = useAppState();
  const sessions = Object.values(state.sessions).sort((a, b) => rank(state, a) - rank(state, b) || b.started_at.localeCompare(a.started_at));
  return (
    <div className="flex min-h-0 flex-col gap-1">
      <a href="#/new" data-testid="new-session" className="flex min-h-10 items-center gap-2.5 rounded-lg px-3 font-medium text-soft hover:bg-sunk hover:text-ink max-md:min-h-12">
        <Plus size={17} aria-hidden />New session
      </a>
      {state.snapshot === "loading" && sessions.length === 0 && <p className="px-3 py-2 text-sm text-faint">Loading…</p>}
      {state.snapshot === "ready" && sessions.length === 0 && <p className="px-3 py-2 text-sm text-faint">No session yet</p>}
      <ul className="space-y-0.5">
        {sessions.map((s) => {
          const waiting = pendingOf(state, s.session_key) !== null;
          const count = s.pending.filter((k) => !state.items[k]?.closed).length;
          return (
            <li key={s.session_key}>
              <a href={sessionHref(s.session_key)} data-testid={`session-${s.session_key}`} data-waiting={waiting} aria-current={current === s.session_key ? "page" : undefined}
                title={waiting ? "waiting for your answer" : undefined}
                className={`flex min-h-11 items-center gap-2.5 rounded-lg px-3 py-1.5 max-md:min-h-14 ${current === s.session_key ? "bg-sunk" : "hover:bg-sunk"}`}>
                <span className="min-w-0 flex-1">
                  <span className={`block truncate text-sm ${s.state === "dead" ? "text-faint" : "font-medium"}`}>{sessionTitle(s)}</span>
                  <span className="block truncate text-[13px] text-faint">{waiting ? "" : `${s.owner}, `}{sessionWord(state, s)}</span>
                </span>
                {waiting && <span className="flex items-center gap-1.5 text-[13px] font-semibold text-amber"><span className="wait-dot" aria-hidden />{count > 1 ? count : ""}<span className="sr-only">waiting for your answer</span></span>}
              </a>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function rank(state: State, s: Session): number {
  if (pendingOf(state, s.session_key)) return 0;
  return s.state === "dead" ? 2 : 1;
}
