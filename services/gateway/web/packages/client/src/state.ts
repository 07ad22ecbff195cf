import type { ConnStatus } from "./transport.ts";
import type { Ack, AttachmentData, Block, ClientFrame, Decision, Field, Outcome, Principal, ProcessState, Receipt, Summary } from "./wire.ts";

/** An interaction as this page knows it. */
export interface Item {
  summary: Summary;
  closed: boolean;
  /** Of a closed one; absent when only its end is known yet. */
  outcome?: Outcome;
  decision?: Decision;
  trail: Ack[];
  /** The request as it must be seen before deciding (summary.body). */
  /** missing: the gateway knows no such interaction, or none that this person may see. */
  load: "idle" | "loading" | "failed" | "missing";
  /** Whether this page watched it while it was open. */
  watched: boolean;
}

/** An answer of this page that is on its way, or was refused. */
export interface Send {
  ref: string;
  frame: ClientFrame;
  /** sending: buttons dead; unsure: no word in time; refused: the server said why. */
  state: "sending" | "unsure" | "refused" | "settled";
  status?: Receipt["status"];
  error?: string;
  fields?: Field[];
}

export type Session = Omit<ProcessState, "type" | "cursor" | "pending_requests" | "pending_request" | "closed"> & {
  /** Keys of what waits, oldest first. */
  pending: string[];
  pendingCount: number;
  /** Its frames have no room for all that waits: what they leave out waits all the same. */
  cut: boolean;
};

export type Entry =
  /** parent is the call whose sub-agent said or did it; empty for the agent itself. */
  | { kind: "text"; id: string; role: "user" | "assistant"; text: string; attachments: AttachmentData[]; parent: string; live: boolean; at: string }
  /** done: its result is here; over: its turn ended, no result is expected any more. */
  | { kind: "tool"; id: string; call: string; name: string; input: string; blocks: Block[]; parent: string; result?: string; failed?: boolean; done: boolean; over: boolean; at: string }
  | { kind: "ask"; id: string; key: string; request: string; headline: string; decision?: Decision; ended: boolean; trail: Ack[]; at: string }
  | { kind: "note"; id: string; text: string; bad: boolean; at: string };

export interface Transcript {
  entries: Entry[];
  cursor: string;
  loading: boolean;
  /** The gateway knows no such session: no worker has taken it yet, or it is long gone. */
  missing?: boolean;
  /** Which taking up of the session the steps are of; a new one ends what the old left open. */
  generation: number;
  next: number; // names entries
}

export interface Spoken {
  n: number;
  text: string;
}

/** What a batch of frames has to say beyond this is more than anybody listens to. */
export const MAX_SPOKEN = 10;

export interface State {
  conn: ConnStatus;
  /** The server's clock minus ours, in milliseconds. */
  offset: number;
  /** What the last frame said of it. */
  measured: number;
  cursor: string;
  principal?: Principal;
  runtimes: string[];
  defaultCwd: string;
  /** How one asks from a shell of the server's machine, up to its flags; empty: unknown. */
  askCommand: string;
  /** Until ready, nobody may say that nothing waits. */
  snapshot: "loading" | "ready";
  /** Pages of a snapshot that is not whole yet. */
  incoming: ProcessState[];
  sessions: Record<string, Session>;
  items: Record<string, Item>;
  sends: Record<string, Send>;
  /** Which interaction each ref of ours was about, retries included. */
  refs: Record<string, string>;
  transcripts: Record<string, Transcript>;
  history: { state: "idle" | "loading" | "ready" | "failed"; keys: string[] };
  cliLogins: { code: string; name: string }[];
  signedIn: { principal?: Principal; name: string; via: string; at: string } | null;
  /** The last words for the live region, oldest first, MAX_SPOKEN at most; n counts them. */
  spoken: Spoken[];
}

export const initialState: State = {
  conn: { status: "connecting" },
  offset: 0,
  measured: 0,
  cursor: "",
  runtimes: [],
  defaultCwd: "",
  askCommand: "",
  snapshot: "loading",
  incoming: [],
  sessions: {},
  items: {},
  sends: {},
  refs: {},
  transcripts: {},
  history: { state: "idle", keys: [] },
  cliLogins: [],
  signedIn: null,
  spoken: [],
};

/** All that waits, in all sessions, oldest first. */
export function pendingKeys(s: State): string[] {
  const keys: string[] = [];
  for (const session of Object.values(s.sessions)) keys.push(...session.pending);
  return keys
    .filter((k) => s.items[k] && !s.items[k]!.closed)
    .sort((a, b) => order(s.items[a]!.summary, s.items[b]!.summary));
}

export function order(a: Summary, b: Summary): number {
  return compare(a.created_at, b.created_at) || compare(a.key, b.key);
}

/** By code units: times and keys need no more, and comparing by a locale takes its time with hundreds. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function byDeadline(a: Summary, b: Summary): number {
  return compare(a.expires_at ?? "9", b.expires_at ?? "9") || order(a, b);
}

/** How many wait, more than are listed where a session holds very many. */
export function pendingCount(s: State): number {
  let n = 0;
  for (const session of Object.values(s.sessions)) {
    const open = session.pending.filter((k) => !s.items[k]?.closed).length;
    // After a break more may be listed than wait, until it is known which have ended.
    n += Math.min(session.pendingCount, open + Math.max(0, session.pendingCount - session.pending.length));
  }
  return n;
}

/** pending_request of a session: the oldest, null when nothing waits. */
export function pendingOf(s: State, sessionKey: string): Item | null {
  for (const k of s.sessions[sessionKey]?.pending ?? []) {
    const item = s.items[k];
    if (item && !item.closed) return item;
  }
  return null;
}

export function isMe(s: State, p: Principal | undefined): boolean {
  return !!p && !!s.principal && p.id === s.principal.id && p.kind === s.principal.kind;
}

export type CardState =
  | "pending" | "sending" | "unsure" | "refused"
  | "confirmed" | "lost" | "decided" | "expired" | "withdrawn" | "orphaned" | "invalid" | "gone";

/** Whether the gateway did not take what was sent: it is in no record, and took no part in a race. */
export function refused(s: Send): boolean {
  return s.status === "forbidden" || s.status === "invalid" || s.status === "digest_mismatch" || s.status === "not_found";
}

/** The one word for what a card is in. */
export function cardState(s: State, key: string): CardState {
  const item = s.items[key];
  const send = s.sends[key];
  if (!item || !item.closed) {
    if (!send || send.state === "settled") return "pending";
    return send.state;
  }
  switch (item.outcome) {
    case undefined: return "gone";
    case "expired": return "expired";
    case "cancelled": return "withdrawn";
    case "orphaned": return "orphaned";
    case "invalid": return "invalid";
    default:
      if (send && (send.status === "accepted" || send.status === "duplicate")) return "confirmed";
      if (send && send.status === "already_decided") return "lost";
      if (isMe(s, item.decision?.principal)) return "confirmed";
      return send && !refused(send) ? "lost" : "decided";
  }
}
