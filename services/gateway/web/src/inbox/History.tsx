import { ChevronDown, LoaderCircle, Search } from "lucide-react";
import { type FormEvent, useCallback, useEffect, useId, useRef, useState } from "react";
import type { DecisionSearch, Interaction, Item, Outcome } from "@banksman/client";
import { isMe } from "@banksman/client";
import { Receipt } from "../cards/Receipt";
import { useNow } from "../cards/useNow";
import { clock, origin } from "../cards/words";
import { useApp, useAppState } from "../ui/context";
import { Button, inputClass } from "../ui/controls";
import { interactionHref, sessionHref } from "../ui/route";

const OUTCOMES: [Outcome, string][] = [
  ["allowed", "Approved"], ["denied", "Denied"], ["answered", "Answered"], ["clarify", "Answered in words"], ["dismissed", "Dismissed"],
  ["expired", "Expired"], ["cancelled", "Withdrawn"], ["orphaned", "Agent gone"], ["invalid", "Refused as invalid"],
];

const nothing = { q: "", outcome: "", kind: "", tool: "", project: "", agent: "", who: "", from: "", until: "" };

interface Found {
  search: DecisionSearch;
  list: Interaction[];
  next: string | undefined;
  readTo: string | undefined;
  state: "loading" | "ready" | "failed";
  problem: string;
}

/** All decisions, newest first, out of the record: filtered and searched by the server. */
export function History() {
  const app = useApp();
  const state = useAppState();
  const now = useNow(state.offset);
  const id = useId();
  const [form, setForm] = useState(nothing);
  const [found, setFound] = useState<Found>({ search: {}, list: [], next: undefined, readTo: undefined, state: "loading", problem: "" });
  const turn = useRef<AbortController | undefined>(undefined);
  const online = state.conn.status === "online";

  const look = useCallback((search: DecisionSearch, older?: Found) => {
    turn.current?.abort();
    const mine = new AbortController();
    turn.current = mine;
    setFound((f) => ({ ...f, search, list: older?.list ?? (f.search === search ? f.list : []), state: "loading", problem: "" }));
    app.gateway.decisions({ ...search, limit: 50, ...(older?.next === undefined ? {} : { before: older.next }) }, { signal: mine.signal }).then(
      (page) => {
        if (mine.signal.aborted) return;
        const have = new Set(older?.list.map((i) => i.key));
        setFound({ search, list: [...(older?.list ?? []), ...page.interactions.filter((i) => !have.has(i.key))], next: page.next, readTo: page.read_to, state: "ready", problem: "" });
      },
      (e: unknown) => {
        if (!mine.signal.aborted) setFound((f) => ({ ...f, state: "failed", problem: e instanceof Error ? e.message : String(e) }));
      },
    );
  }, [app]);
  // What was looked for and not found yet is looked for once the server is there (again).
  const open = useRef(found);
  open.current = found;
  useEffect(() => {
    if (online && open.current.state !== "ready") look(open.current.search);
    return () => turn.current?.abort();
  }, [online, look]);

  const submit = (e?: FormEvent) => {
    e?.preventDefault();
    look(searchOf(form));
  };
  const set = (name: keyof typeof nothing) => (e: { target: { value: string } }) => setForm({ ...form, [name]: e.target.value });
  const pick = (name: keyof typeof nothing) => (e: { target: { value: string } }) => {
    const next = { ...form, [name]: e.target.value };
    setForm(next);
    look(searchOf(next));
  };
  const filtered = Object.keys(found.search).length > 0;
  // What was decided while this is open, and is not in the list.
  const fresh = state.history.keys.filter((k) => state.items[k]?.watched && state.items[k].closed && !found.list.some((i) => i.key === k) && (state.items[k].decision?.decided_at ?? "") > (found.list[0]?.decision?.decided_at ?? "")).length;

  return (
    <div data-testid="history" className="mx-auto w-full max-w-3xl px-4 py-6 md:px-8">
      <h1 className="mb-4 text-xl font-semibold">Decisions</h1>
      <form role="search" onSubmit={submit} className="mb-4 space-y-3">
        <div className="flex gap-2">
          <label htmlFor={`${id}-q`} className="sr-only">Words in the request or its answer</label>
          <input id={`${id}-q`} type="search" data-testid="history-q" maxLength={200} value={form.q} onChange={set("q")} placeholder='Words, or "words together"' className={`${inputClass} min-h-11`} />
          <Button type="submit" look="solid" disabled={!online} data-testid="history-search"><Search size={16} aria-hidden />Search</Button>
        </div>
        <details className="group" open={filtered || undefined}>
          <summary className="inline-flex min-h-9 items-center rounded text-sm font-medium text-soft hover:text-ink max-md:min-h-11 [&::-webkit-details-marker]:hidden"><ChevronDown size={16} aria-hidden className="mr-1.5 group-open:rotate-180" />Filters</summary>
          <div className="mt-2 grid gap-3 sm:grid-cols-3">
            <Field id={`${id}-outcome`} label="Outcome"><select id={`${id}-outcome`} data-testid="history-outcome" value={form.outcome} onChange={pick("outcome")} className={`${inputClass} min-h-11`}><option value="">Any</option>{OUTCOMES.map(([v, t]) => <option key={v} value={v}>{t}</option>)}</select></Field>
            <Field id={`${id}-kind`} label="Kind"><select id={`${id}-kind`} value={form.kind} onChange={pick("kind")} className={`${inputClass} min-h-11`}><option value="">Any</option><option value="approval">Approvals</option><option value="question">Questions</option><option value="form">Forms</option></select></Field>
            {(["tool", "agent", "project", "who"] as const).map((name) => (
              <Field key={name} id={`${id}-${name}`} label={{ tool: "Tool", agent: "Agent", project: "Project", who: "Decided by" }[name]}>
                <input id={`${id}-${name}`} data-testid={`history-${name}`} value={form[name]} onChange={set(name)} className={`${inputClass} min-h-11`} />
              </Field>
            ))}
            <Field id={`${id}-from`} label="From"><input id={`${id}-from`} type="date" value={form.from} onChange={pick("from")} className={`${inputClass} min-h-11`} /></Field>
            <Field id={`${id}-until`} label="To the end of"><input id={`${id}-until`} type="date" value={form.until} onChange={pick("until")} className={`${inputClass} min-h-11`} /></Field>
            <div className="flex items-end gap-2">
              <Button type="submit" disabled={!online}>Apply</Button>
              {filtered && <Button look="quiet" onClick={() => { setForm(nothing); look({}); }}>Clear</Button>}
            </div>
          </div>
        </details>
      </form>
      {fresh > 0 && found.state === "ready" && <p className="mb-3 text-sm"><Button small onClick={() => look(found.search)}>{fresh === 1 ? "1 newer decision" : `${fresh} newer decisions`}: look again</Button></p>}
      {found.state === "failed" && <p role="alert" className="mb-3 text-sm font-medium text-ink">The decisions could not be fetched: {found.problem} <Button small disabled={!online} onClick={() => look(found.search)}>Try again</Button></p>}
      {found.list.length > 0 && (
        <ul className="divide-y divide-line rounded-2xl border border-line bg-card">
          {found.list.map((ix) => <Entry key={ix.key} ix={ix} now={now} me={isMe(state, ix.decision?.principal)} session={state.sessions[ix.session_key]?.title} known={state.sessions[ix.session_key] !== undefined} />)}
        </ul>
      )}
      {found.state === "loading" && <p role="status" className="mt-3 flex items-center gap-3 text-soft"><LoaderCircle size={18} aria-hidden className="animate-spin" />{online ? "Looking through the record…" : "There is no connection to the server."}</p>}
      {found.state === "ready" && (
        <div className="mt-3 flex flex-wrap items-center gap-3 text-sm text-soft">
          {found.next === undefined
            ? <p>{found.list.length > 0 ? "That is all." : filtered ? "No decision matches." : "No decision yet."}</p>
            : <>
                <p>{found.list.length === 0 ? "Nothing so far. " : ""}Looked back to {found.readTo ? clock(found.readTo, now) : "here"}.</p>
                <Button small data-testid="history-more" disabled={!online} onClick={() => look(found.search, found)}>Look further back</Button>
              </>}
        </div>
      )}
    </div>
  );
}

function Field({ id, label, children }: { id: string; label: string; children: React.ReactNode }) {
  return <div className="space-y-1"><label htmlFor={id} className="block text-sm font-medium">{label}</label>{children}</div>;
}

function searchOf(f: typeof nothing): DecisionSearch {
  const out: DecisionSearch = {};
  for (const name of ["q", "kind", "tool", "project", "agent", "who"] as const) if (f[name].trim() !== "") out[name] = f[name].trim();
  if (f.outcome !== "") out.outcome = [f.outcome as Outcome];
  // Days are those of whoever reads this.
  if (f.from !== "") out.from = new Date(`${f.from}T00:00`).toISOString();
  if (f.until !== "") {
    const day = new Date(`${f.until}T00:00`);
    day.setDate(day.getDate() + 1);
    out.until = day.toISOString();
  }
  return out;
}

function Entry({ ix, now, me, session, known }: { ix: Interaction; now: number; me: boolean; session: string | undefined; known: boolean }) {
  const app = useApp();
  const [whole, setWhole] = useState<Interaction>();
  const [load, setLoad] = useState<Item["load"]>("idle");
  const [problem, setProblem] = useState("");
  const fetch = () => {
    setProblem("");
    setLoad("loading");
    app.gateway.call<Interaction>("GET", `/api/interactions/${encodeURIComponent(ix.key)}`).then(
      (found) => { setWhole(found); setLoad("idle"); },
      (e: unknown) => { setLoad("failed"); setProblem(e instanceof Error ? e.message : String(e)); },
    );
  };
  const shown = whole ?? ix;
  const { id: _i, state: _s, outcome, decision, trail, ...summary } = shown;
  const item: Item = { summary, closed: true, outcome, decision, trail: trail ?? [], load, watched: false };
  return (
    <li className="px-5 py-4 [contain-intrinsic-size:auto_96px] [content-visibility:auto] max-md:px-4">
      <Receipt item={item} me={me} lost={false} now={now} where={origin(summary, session).join(" · ")} fetch={fetch} />
      <p className="mt-1 ml-9 flex flex-wrap items-center gap-x-4 text-[13px]">
        {!summary.body && summary.digest !== "" && (outcome === "answered" || load === "failed") && load !== "loading" && (
          <button type="button" className="text-accent underline-offset-2 hover:underline max-md:min-h-11" onClick={fetch}>Fetch all that was asked</button>
        )}
        <a className="text-accent underline-offset-2 hover:underline max-md:min-h-11 max-md:content-center" href={interactionHref(ix.key)}>Open it</a>
        {known && <a className="text-accent underline-offset-2 hover:underline max-md:min-h-11 max-md:content-center" href={sessionHref(ix.session_key)}>Open its session</a>}
        {problem !== "" && <span role="alert" className="font-medium text-ink">{problem}</span>}
      </p>
    </li>
  );
}
