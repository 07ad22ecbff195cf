// The one place where frames become state. Pure: replay and live take the same
// path, and what waits comes from snapshots and process_state alone.
import { clockOffset } from "./timing.ts";
import type { ConnStatus } from "./transport.ts";
import type { Ack, ClientFrame, Closed, Decision, InFrame, Interaction, Outcome, ProcessState, Receipt, Summary } from "./wire.ts";
import { initialState, isMe, type Item, MAX_SPOKEN, order, pendingCount, type Session, type State } from "./state.ts";
import { applyEvents, emptyTranscript } from "./transcript.ts";

export type Action =
  | { kind: "frame"; frame: InFrame; now: number }
  | { kind: "conn"; status: ConnStatus }
  | { kind: "send"; key: string; ref: string; frame: ClientFrame }
  | { kind: "unsure"; ref: string }
  | { kind: "load"; key: string; state: "loading" | "failed" | "missing" }
  | { kind: "interaction"; interaction: Interaction }
  | { kind: "history"; state: "loading" | "failed" }
  | { kind: "history-ready"; interactions: Interaction[] }
  /** A list of what waits: whole, or the oldest of it. asked: what was thought to wait when it was asked for. */
  | { kind: "extra"; interactions: Interaction[]; whole: boolean; asked: readonly string[] }
  | { kind: "subscribe"; session: string }
  | { kind: "followed"; session: string; missing: boolean }
  | { kind: "cli-logins"; requests: { code: string; name: string }[] }
  | { kind: "cli-login-done"; code: string }
  | { kind: "signed-in-seen" }
  /** What is over and done with, by key. */
  | { kind: "forget"; items?: readonly string[]; sessions?: readonly string[]; transcripts?: readonly string[] }
  | { kind: "say"; text: string };

export function reduce(s: State, a: Action): State {
  switch (a.kind) {
    case "frame": return frame(s, a.frame, a.now);
    case "conn": return connection(s, a.status);
    case "send": return {
      ...s,
      sends: { ...s.sends, [a.key]: { ref: a.ref, frame: a.frame, state: "sending" } },
      refs: { ...s.refs, [a.ref]: a.key },
    };
    case "unsure": {
      const key = s.refs[a.ref];
      const send = key === undefined ? undefined : s.sends[key];
      if (!key || !send || send.ref !== a.ref || send.state !== "sending") return s;
      return say({ ...s, sends: { ...s.sends, [key]: { ...send, state: "unsure" } } }, "No word from the server yet. You can try again.");
    }
    case "load": return patch(s, a.key, { load: a.state });
    case "interaction": return enlist(merge(s, a.interaction), [a.interaction.key]);
    case "history": return { ...s, history: { ...s.history, state: a.state } };
    case "history-ready": {
      const next = a.interactions.reduce(merge, s);
      const keys = a.interactions.filter((i) => i.state === "closed").map((i) => i.key);
      return { ...next, history: { state: "ready", keys: unique([...keys, ...s.history.keys]) } };
    }
    case "extra": return listed(s, a.interactions, a.whole, a.asked);
    case "subscribe": {
      if (s.transcripts[a.session]) return s;
      return { ...s, transcripts: { ...s.transcripts, [a.session]: emptyTranscript } };
    }
    case "followed": {
      const old = s.transcripts[a.session];
      if (!old || (old.missing ?? false) === a.missing) return s;
      return { ...s, transcripts: { ...s.transcripts, [a.session]: { ...old, missing: a.missing } } };
    }
    case "cli-logins": {
      // The list was asked for before some of the announcements came.
      const later = s.cliLogins.filter((x) => !a.requests.some((r) => r.code === x.code));
      return { ...s, cliLogins: [...a.requests.map((r) => ({ code: r.code, name: r.name })), ...later] };
    }
    case "cli-login-done": return { ...s, cliLogins: s.cliLogins.filter((r) => r.code !== a.code) };
    case "signed-in-seen": return { ...s, signedIn: null };
    case "forget": return forget(s, new Set(a.items), new Set(a.sessions), new Set(a.transcripts));
    case "say": return say(s, a.text);
  }
}

function forget(s: State, items: ReadonlySet<string>, sessions: ReadonlySet<string>, transcripts: ReadonlySet<string>): State {
  const next = { ...s, sessions: without(s.sessions, sessions), transcripts: without(s.transcripts, transcripts) };
  if (items.size === 0) return next;
  return {
    ...next,
    items: without(s.items, items),
    sends: without(s.sends, items),
    refs: Object.fromEntries(Object.entries(s.refs).filter(([, key]) => !items.has(key))),
    history: { ...s.history, keys: s.history.keys.filter((key) => !items.has(key)) },
  };
}

function without<T>(all: Record<string, T>, keys: ReadonlySet<string>): Record<string, T> {
  return keys.size === 0 ? all : Object.fromEntries(Object.entries(all).filter(([key]) => !keys.has(key)));
}

function frame(s: State, f: InFrame, now: number): State {
  switch (f.type) {
    case "hello": {
      // Nothing that one person was told is shown to another.
      const other = s.principal !== undefined && !isMe(s, f.principal);
      const old = other ? say({ ...initialState, conn: s.conn, spoken: s.spoken }, "Somebody else is signed in here now.") : s;
      return {
        ...old,
        spoken: other ? old.spoken.slice(-1) : old.spoken,
        offset: clockOffset(f.server_time, now),
        measured: clockOffset(f.server_time, now),
        principal: f.principal,
        runtimes: f.runtimes ?? [],
        defaultCwd: f.default_cwd ?? "",
        askCommand: f.ask_command ?? "",
        incoming: [],
        // Without recovery a snapshot follows; a half one must not be resumed.
        snapshot: f.recovered ? old.snapshot : "loading",
        cursor: f.recovered ? old.cursor : "",
        items: lookAgain(old.items),
      };
    }
    case "active_processes": {
      const incoming = [...s.incoming, ...(f.sessions ?? [])];
      if (f.more) return { ...s, incoming };
      return snapshot({ ...s, incoming: [], cursor: f.cursor }, incoming);
    }
    case "process_state":
      return processState(f.cursor ? { ...s, cursor: f.cursor } : s, f, true);
    case "event": {
      const old = s.transcripts[f.session_key];
      if (!old) return s; // not subscribed (any more)
      return { ...s, transcripts: { ...s.transcripts, [f.session_key]: applyEvents(old, f) } };
    }
    case "delivery": {
      const ack: Ack = { v: f.v, stage: f.stage, decision_id: f.decision_id, at: f.at, detail: f.detail };
      const next = f.cursor ? { ...s, cursor: f.cursor } : s;
      const item = next.items[f.key];
      return item ? patch(next, f.key, { trail: addAck(item.trail, ack) }) : next;
    }
    case "receipt": return receipt(s, f);
    case "ping": {
      // A ping that lay somewhere says too little, never too much; a clock that
      // was set says the same the next time.
      const measured = clockOffset(f.server_time, now);
      return { ...s, measured, offset: Math.max(measured, s.measured) };
    }
    case "cli_login":
      if (s.cliLogins.some((r) => r.code === f.code)) return s;
      return say({ ...s, cliLogins: [...s.cliLogins, { code: f.code, name: f.name }] }, "A terminal asks to sign in as you.");
    case "cli_login_settled": return { ...s, cliLogins: s.cliLogins.filter((r) => r.code !== f.code) };
    case "signed_in": return { ...s, signedIn: { principal: f.principal, name: f.name, via: f.via, at: f.at } };
    default: return s; // a newer server may say more
  }
}

/** What could not be fetched over the old line is fetched over the new one. */
function lookAgain(items: State["items"]): State["items"] {
  const failed = Object.entries(items).filter(([, i]) => i.load === "failed" || i.load === "missing");
  return failed.length === 0 ? items : { ...items, ...Object.fromEntries(failed.map(([key, i]) => [key, { ...i, load: "idle" as const }])) };
}

function connection(s: State, status: ConnStatus): State {
  if (status.status === s.conn.status && status.status !== "lost") return s;
  const next = { ...s, conn: status };
  if (status.status === "lost" && s.conn.status === "online") return say(next, "Connection lost. Decisions are off until it is back.");
  if (status.status === "online" && s.snapshot === "ready") return say(next, "Connected again.");
  return next;
}

function snapshot(s: State, sessions: ProcessState[]): State {
  let next: State = { ...s, sessions: {}, snapshot: "ready" };
  for (const p of sessions) next = processState(next, p, false, s.sessions[p.session_key]);
  // What was open and is in no session now ended while we were away; how, only
  // the server can say. A session with more than a frame holds says nothing of the rest.
  const open = new Set(Object.values(next.sessions).flatMap((x) => x.pending));
  const items = { ...next.items };
  for (const [key, item] of Object.entries(items)) {
    if (!item.closed && !open.has(key) && !next.sessions[item.summary.session_key]?.cut) items[key] = { ...item, closed: true };
  }
  next = { ...next, items };
  const n = pendingCount(next);
  return say(next, n === 0 ? "Nothing waits for you." : n === 1 ? "1 request waits for you." : `${n} requests wait for you.`);
}

/** Whether a body that was fetched beside one summary belongs to the other: the server says the same of both. */
function alike(a: Summary, b: Summary): boolean {
  return a.digest === b.digest && a.headline === b.headline && a.risk === b.risk && a.risk_reason === b.risk_reason;
}

function processState(s: State, p: ProcessState, live: boolean, before: Session | undefined = s.sessions[p.session_key]): State {
  const { type: _t, cursor: _c, pending_requests, pending_request: _p, closed, ...rest } = p;
  const waiting = pending_requests ?? [];
  const items = { ...s.items };
  let next: State = { ...s, items };
  const fresh: Summary[] = [];
  // Where not all was known before, what comes into view may have waited for long.
  const newest = before?.cut ? before.pending.map((k) => items[k]?.summary).findLast((x) => x !== undefined) : undefined;
  for (const summary of waiting) {
    const old = items[summary.key];
    // One decision: what ended stays ended, whatever arrives late. An absence is none:
    // after a break a frame may come again, and the next one tells what it lacked.
    if (old?.closed && !presumed(old)) continue;
    if (!old && (!newest || order(summary, newest) > 0)) fresh.push(summary);
    items[summary.key] = {
      ...(old ?? { trail: [], load: "idle" }),
      closed: false,
      watched: true,
      summary: { ...summary, body: summary.body ?? (old && alike(old.summary, summary) ? old.summary.body : undefined) },
    };
  }
  const keys = waiting.map((w) => w.key);
  const pendingCount = Math.max(p.pending_count ?? keys.length, keys.length);
  const cut = pendingCount > keys.length;
  const gone = new Set((closed ?? []).map((c) => c.key));
  // Those beyond the frame stay until they end.
  const pending = cut ? ordered(next, [...keys, ...(before?.pending ?? []).filter((k) => !gone.has(k) && !items[k]?.closed)]) : keys;
  next = { ...next, sessions: { ...s.sessions, [p.session_key]: { ...rest, pending, pendingCount, cut } } };
  for (const c of closed ?? []) next = close(next, c);
  const still = new Set(pending);
  for (const key of before?.pending ?? []) {
    if (!still.has(key) && next.items[key] && !next.items[key].closed) next = patch(next, key, { closed: true });
  }
  const only = fresh[0];
  if (live && only) {
    next = say(next, fresh.length === 1 ? `New request: ${only.headline}.` : `${fresh.length} new requests.`);
  }
  return next;
}

/** Whether an end was only seen as an absence, and nobody has said how. */
function presumed(i: Item): boolean {
  return i.closed && i.outcome === undefined && i.decision === undefined;
}

function ordered(s: State, keys: string[]): string[] {
  return unique(keys).filter((k) => s.items[k]).sort((a, b) => order(s.items[a]!.summary, s.items[b]!.summary));
}

/** Puts what waits into its session, where that has more than its frames list. */
function enlist(s: State, keys: string[]): State {
  const sessions = { ...s.sessions };
  for (const [name, session] of Object.entries(sessions)) {
    if (!session.cut) continue;
    const known = new Set(session.pending);
    const more = keys.filter((k) => s.items[k]?.summary.session_key === name && !s.items[k].closed && !known.has(k));
    if (more.length > 0) sessions[name] = { ...session, pending: ordered(s, [...session.pending, ...more]) };
  }
  return { ...s, sessions };
}

function listed(s: State, list: Interaction[], whole: boolean, asked: readonly string[]): State {
  const items = { ...s.items };
  for (const i of list) items[i.key] = opened(items[i.key], i, s);
  const has = new Set(list.map((i) => i.key));
  const last = list.at(-1);
  const gone = new Set<string>();
  for (const key of asked) {
    const item = items[key];
    if (!item || item.closed || has.has(key) || !s.sessions[item.summary.session_key]?.cut) continue;
    // Beyond the end of a list that is not whole nothing is known.
    if (!whole && last && order(item.summary, last) > 0) continue;
    items[key] = { ...item, closed: true };
    gone.add(key);
  }
  const sessions = Object.fromEntries(Object.entries(s.sessions).map(([name, x]) => [name, x.cut ? { ...x, pending: x.pending.filter((k) => !gone.has(k)) } : x]));
  return enlist({ ...s, items, sessions }, [...has]);
}

function close(s: State, c: Closed): State {
  const { state: _s, outcome, decision, trail, ...summary } = c;
  return settle(s, c.key, summary, outcome, decision, trail ?? []);
}

function settle(s: State, key: string, summary: Summary | undefined, outcome: Outcome | undefined, decision: Decision | undefined, trail: Ack[]): State {
  const old = s.items[key];
  if (!old && !summary) return s;
  const was = old?.summary;
  const item: Item = {
    summary: { ...(was ?? summary!), ...(summary ?? {}), body: summary?.body ?? was?.body },
    closed: true,
    outcome: outcome ?? old?.outcome ?? decision?.outcome,
    decision: decision ?? old?.decision,
    trail: trail.reduce(addAck, old?.trail ?? []),
    load: old?.load ?? "idle",
    watched: old?.watched ?? false,
  };
  let next: State = { ...s, items: { ...s.items, [key]: item } };
  if (!s.history.keys.includes(key)) next = { ...next, history: { ...next.history, keys: [key, ...next.history.keys] } };
  const send = s.sends[key];
  if (send && send.state !== "settled") next = { ...next, sends: { ...next.sends, [key]: { ...send, state: "settled" } } };
  if (old && !old.closed && old.watched && item.outcome) next = say(next, `${item.summary.headline}: ${spokenOutcome[item.outcome]}.`);
  return next;
}

const spokenOutcome: Record<Outcome, string> = {
  allowed: "approved",
  denied: "denied",
  answered: "answered",
  clarify: "answered in words",
  dismissed: "dismissed",
  expired: "expired, nobody answered",
  cancelled: "withdrawn by the agent",
  orphaned: "the agent is gone",
  invalid: "refused as invalid",
};

function receipt(s: State, r: Receipt): State {
  const key = r.ref === undefined ? undefined : s.refs[r.ref];
  const send = key === undefined ? undefined : s.sends[key];
  if (!key || !send) return s; // receipts of commands are awaited by who sent them
  // A late word about an earlier try must not undo the present one, unless it decides.
  const current = send.ref === r.ref;
  switch (r.status) {
    case "accepted":
    case "duplicate":
    case "already_decided": {
      const next = { ...s, sends: { ...s.sends, [key]: { ...send, state: "settled" as const, status: r.status } } };
      return settle(next, key, undefined, r.decision?.outcome ?? guess(send.frame, r.status), r.decision, []);
    }
    case "expired": {
      const next = { ...s, sends: { ...s.sends, [key]: { ...send, state: "settled" as const, status: r.status } } };
      return settle(next, key, undefined, r.decision?.outcome ?? "expired", r.decision, []);
    }
    default: {
      if (!current) return s;
      const next: State = {
        ...s,
        sends: { ...s.sends, [key]: { ...send, state: r.status === "unavailable" ? "unsure" : "refused", status: r.status, error: r.error, fields: r.fields } },
      };
      const spoken = r.status === "unavailable" ? "The server could not store it. You can try again." : "The server did not take it. The request still waits.";
      if (r.status === "digest_mismatch") {
        // What we showed is not what is asked: show anew before anything is decided.
        const item = next.items[key];
        if (item) return say(patch(next, key, { load: "idle", summary: { ...item.summary, body: undefined, cut: true } }), spoken);
      }
      return say(next, spoken);
    }
  }
}

/** What an accepted frame must have decided, when the receipt brings no decision. */
function guess(f: ClientFrame, status: Receipt["status"]): Outcome | undefined {
  if (status === "already_decided") return undefined;
  if (f.decision === "allow") return "allowed";
  if (f.decision === "deny") return "denied";
  if (f.action === "clarify") return "clarify";
  if (f.action === "dismiss") return "dismissed";
  return "answered";
}

function merge(s: State, i: Interaction): State {
  const { id: _i, state, outcome, decision, trail, ...summary } = i;
  if (state === "closed") {
    const next = settle(s, i.key, summary, outcome, decision, trail ?? []);
    return patch(next, i.key, { load: "idle" });
  }
  return { ...s, items: { ...s.items, [i.key]: opened(s.items[i.key], i, s) } };
}

/** What is known of one that waits, by the server's own word. */
function opened(old: Item | undefined, i: Interaction, s: State): Item {
  const { id: _i, state: _s, outcome: _o, decision: _d, trail: _t, ...summary } = i;
  if (old?.closed) {
    // Its end was read from an absence. Where the session lists not all, that was wrong.
    if (!presumed(old)) return old;
    if (!s.sessions[i.session_key]?.cut) return { ...old, load: "failed" };
  }
  return { ...(old ?? { trail: [] }), closed: false, watched: true, summary: { ...summary, body: summary.body ?? old?.summary.body }, load: "idle" };
}

function patch(s: State, key: string, change: Partial<Item>): State {
  const item = s.items[key];
  return item ? { ...s, items: { ...s.items, [key]: { ...item, ...change } } } : s;
}

// A later stage may be heard of first: of the earlier one by what is fetched.
function addAck(trail: Ack[], ack: Ack): Ack[] {
  if (trail.some((t) => t.stage === ack.stage)) return trail;
  return ack.stage === "delivered" ? [ack, ...trail] : [...trail, ack];
}

function say(s: State, text: string): State {
  return { ...s, spoken: [...s.spoken, { n: (s.spoken.at(-1)?.n ?? 0) + 1, text }].slice(-MAX_SPOKEN) };
}

function unique(keys: string[]): string[] {
  return [...new Set(keys)];
}
