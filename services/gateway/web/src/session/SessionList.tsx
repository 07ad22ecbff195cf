import { Plus } from "lucide-react";
import { memo, useState } from "react";
import { pendingOf, type Session, type State } from "@banksman/client";
import { useNow } from "../cards/useNow";
import { span } from "../cards/words";
import { useAppState } from "../ui/context";
import { marked } from "../cards/unseen";
import { sessionHref } from "../ui/route";

const words: Record<string, string> = {
  starting: "starting",
  assistant_turn: "working",
  user_turn: "ready for you",
  dead: "ended",
};

const ENDED = 10; // ended sessions listed until one asks for more

export function sessionWord(state: State, s: Session): string {
  if (pendingOf(state, s.session_key)) return "waiting for your answer";
  if (s.unreachable && s.state !== "dead") return "unreachable";
  if (s.state === "dead" && s.error) return "failed";
  return words[s.state] ?? s.state;
}

export function sessionTitle(s: Session): string {
  return s.title || marked(s.session_id);
}

/** The last name of a path: enough to tell sessions apart. */
function folder(cwd: string | undefined): string {
  return (cwd ?? "").split(/[\\/]/).filter(Boolean).at(-1) ?? "";
}

export function SessionList({ current }: { current: string }) {
  const state = useAppState();
  const now = useNow(state.offset);
  const [more, setMore] = useState(ENDED);
  const sessions = Object.values(state.sessions).sort((a, b) => rank(state, a) - rank(state, b) || (a.started_at < b.started_at ? 1 : -1));
  const alive = sessions.filter((s) => rank(state, s) < 2);
  const ended = sessions.filter((s) => rank(state, s) === 2);
  const row = (s: Session) => (
    <Entry key={s.session_key} s={s} now={now} on={current === s.session_key} word={sessionWord(state, s)}
      asked={pendingOf(state, s.session_key)?.summary.created_at} count={s.pending.filter((k) => !state.items[k]?.closed).length} />
  );
  return (
    <div className="flex min-h-0 flex-col gap-1">
      <a href="#/new" data-testid="new-session" className="flex min-h-10 items-center gap-2.5 rounded-lg px-3 font-medium text-soft hover:bg-sunk hover:text-ink max-md:mb-2 max-md:min-h-12 max-md:justify-center max-md:bg-accent max-md:text-accent-ink">
        <Plus size={17} aria-hidden />New session
      </a>
      {state.snapshot === "loading" && sessions.length === 0 && <p className="px-3 py-2 text-sm text-faint">Loading…</p>}
      {state.snapshot === "ready" && sessions.length === 0 && <p className="px-3 py-2 text-sm text-faint">No session yet</p>}
      <ul className="space-y-0.5">{alive.map(row)}</ul>
      {ended.length > 0 && (
        <>
          <h3 className="mt-3 px-3 text-[13px] font-medium text-faint">Ended</h3>
          <ul className="space-y-0.5">{ended.slice(0, more).map(row)}</ul>
          {ended.length > more && <button type="button" onClick={() => setMore(more + 50)} className="min-h-11 rounded-lg px-3 text-left text-sm font-medium text-accent hover:bg-sunk">Show more of {ended.length - more}</button>}
        </>
      )}
    </div>
  );
}

/** Drawn anew only when something of its own changed: there may be hundreds beside what one looks at. */
const Entry = memo(function Entry({ s, word, asked, count, now, on }: { s: Session; word: string; asked: string | undefined; count: number; now: number; on: boolean }) {
  const waiting = asked !== undefined;
  const since = now - Date.parse(asked ?? s.state_changed_at);
  const age = Number.isNaN(since) ? "" : since < 60_000 ? "now" : span(since);
  return (
    <li>
      <a href={sessionHref(s.session_key)} data-testid={`session-${s.session_key}`} data-waiting={waiting} aria-current={on ? "page" : undefined}
        title={waiting ? "waiting for your answer" : undefined}
        className={`flex min-h-11 items-center gap-2.5 rounded-lg px-3 py-1.5 max-md:min-h-14 ${on ? "bg-sunk" : "hover:bg-sunk"}`}>
        <span className="min-w-0 flex-1">
          <span className={`block truncate text-sm ${s.state === "dead" ? "text-soft" : "font-medium"}`}>{sessionTitle(s)}</span>
          <span className={`block truncate text-[13px] ${waiting ? "font-medium text-soft" : "text-faint"}`}>{[word, age, waiting ? "" : folder(s.cwd)].filter(Boolean).join(" · ")}</span>
        </span>
        {waiting && <span className="flex items-center gap-1.5 text-[13px] font-semibold text-ink"><span className="wait-dot" aria-hidden />{count > 1 ? count : ""}</span>}
      </a>
    </li>
  );
});

function rank(state: State, s: Session): number {
  if (pendingOf(state, s.session_key)) return 0;
  return s.state === "dead" ? 2 : 1;
}
