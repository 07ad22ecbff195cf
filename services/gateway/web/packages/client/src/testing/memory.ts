// A gateway in memory: the same answers as the real one to whoever embeds it as
// a host, for tests and demonstrations. It keeps nothing and asks no agent.
import type { CommandFrame, DecideFrame, Host } from "../direct.ts";
import { GatewayError } from "../errors.ts";
import type { Call } from "../transport.ts";
import type { Closed, Decision, Event, InFrame, Interaction, Outcome, Principal, ProcessState, Receipt, Summary } from "../wire.ts";

interface Step {
  n: number;
  frame: InFrame;
}

interface Watcher {
  take(frames: InFrame[]): void;
  fail(e: unknown): void;
}

interface Session {
  state: ProcessState;
  pending: Map<string, Summary>;
  events: { n: number; events: Event[] }[];
  followers: Set<Watcher>;
}

export class MemoryGateway {
  /** Changes with the content of its log: a cursor of another epoch is none. */
  private epoch = 1;
  private n = 0;
  private log: Step[] = [];
  private readonly sessions = new Map<string, Session>();
  private readonly closed = new Map<string, Closed>();
  private readonly watchers = new Set<Watcher>();
  private readonly commands = new Set<string>();
  /** Decide and command wait here before they answer, for tests of lost words. */
  gate: Promise<void> = Promise.resolve();
  /** Answers are lost on their way. */
  deaf = false;
  /** How often each answer was given to the gateway, by ref. */
  readonly heard: string[] = [];
  /** What somebody had before their eyes, by who it was. */
  readonly looks: [person: string, key: string][] = [];
  readonly carriedOut: CommandFrame[] = [];

  /** The gateway as it is for one person. */
  host(person: Principal): Host {
    return {
      watch: (o, onFrames) => this.watch(person, o, onFrames),
      subscribe: (session, o, onFrames) => this.subscribe(session, o, onFrames),
      decide: async (frame, o) => {
        this.heard.push(frame.ref ?? "");
        if (this.deaf) await new Promise((_, reject) => o.signal.addEventListener("abort", reject));
        const r = this.decide(person, frame);
        await this.gate;
        o.signal.throwIfAborted();
        return r;
      },
      command: async (frame) => {
        await this.gate;
        return this.command(frame);
      },
      seen: async (keys) => void this.looks.push(...keys.map((k): [string, string] => [person.id, k])),
      interaction: async (key) => this.interaction(key),
      interactions: async (state, limit) => this.list(state, limit),
    };
  }

  /** Something begins to wait. */
  ask(s: Summary): void {
    const session = this.session(s.session_key, s);
    session.pending.set(s.key, s);
    this.change(session);
    this.say(s.session_key, [
      { type: "interaction_pending", at: s.created_at, data: { interaction_id: s.request_id, pending: true } },
      { type: "interaction_request", at: s.created_at, data: { ...s, interaction_id: s.request_id } },
    ]);
  }

  /** It ends without this client's doing. */
  end(key: string, outcome: Outcome, by: Principal, more: Partial<Decision> = {}): Decision {
    const found = this.find(key);
    if (!found) throw new Error(`nothing waits with the key ${key}`);
    const [session, s] = found;
    const decision: Decision = {
      v: 1, decision_id: `d-${s.request_id}`, interaction_id: s.request_id, digest: s.digest, outcome, principal: by, channel: "web",
      policy: { version: "1", risk: s.risk }, decided_at: new Date().toISOString(), request_seq: 1, requested_at: s.created_at, ...more,
    };
    const closed: Closed = { ...s, state: "closed", outcome, decision };
    session.pending.delete(key);
    this.closed.set(key, closed);
    this.change(session, [closed]);
    this.say(s.session_key, [{ type: "interaction_response", at: decision.decided_at, data: { interaction_id: s.request_id, decision } }]);
    return decision;
  }

  /** Steps of a conversation; those of one call share a cursor. */
  say(key: string, events: Event[]): void {
    const session = this.session(key);
    const n = ++this.n;
    const cursor = this.cursor(n);
    const stored = events.map((e) => ({ ...e, cursor }));
    session.events.push({ n, events: stored });
    this.tell(session.followers, [this.frameOf(key, stored, cursor)]);
  }

  /** A delta: live only. */
  type(key: string, block: string, text: string): void {
    this.tell(this.session(key).followers, [this.frameOf(key, [{ type: "text_delta", at: new Date().toISOString(), data: { block_id: block, text } }], "")]);
  }

  /** Every connection breaks. */
  cut(e: unknown = new Error("cut")): void {
    const all = [...this.watchers, ...[...this.sessions.values()].flatMap((s) => [...s.followers])];
    for (const w of all) w.fail(e);
  }

  /** Forgets what cursors need: the next comer gets a snapshot. */
  trim(): void {
    this.epoch++;
    this.log = [];
  }

  get watching(): number {
    return this.watchers.size;
  }

  private watch(person: Principal, o: { cursor: string; signal: AbortSignal }, onFrames: (f: InFrame[]) => void): Promise<void> {
    const from = this.position(o.cursor);
    const now = this.cursor(this.n);
    const first: InFrame[] = [{ type: "hello", protocol: 1, cursor: now, server_time: new Date().toISOString(), principal: person, recovered: from !== undefined, runtimes: ["demo"] }];
    if (from === undefined) {
      // A page for each session, so that every client meets more than one.
      const all = [...this.sessions.values()].map((s) => this.stateOf(s));
      const pages = all.length === 0 ? [[]] : all.map((s) => [s]);
      pages.forEach((sessions, i) => first.push({ type: "active_processes", cursor: now, sessions, more: i < pages.length - 1 }));
    } else first.push(...this.log.filter((s) => s.n > from).map((s) => s.frame));
    onFrames(first);
    return this.stay(this.watchers, o.signal, onFrames);
  }

  private subscribe(key: string, o: { from: string; signal: AbortSignal }, onFrames: (f: InFrame[]) => void): Promise<void> {
    const session = this.sessions.get(key);
    if (!session) return Promise.reject(new GatewayError(404, "not_found", `no session ${key}`));
    const from = this.position(o.from);
    const steps = session.events.filter((e) => e.n > (from ?? 0));
    const page = (list: typeof steps, more: boolean, reset: boolean): InFrame => ({
      ...this.frameOf(key, list.flatMap((x) => x.events), more ? this.cursor(list.at(-1)!.n) : this.cursor(this.n)), ...(more ? { more } : {}), ...(reset ? { reset } : {}),
    });
    // Two pages where there is enough for two.
    const half = steps.length > 1 ? Math.ceil(steps.length / 2) : 0;
    if (half > 0) onFrames([page(steps.slice(0, half), true, from === undefined)]);
    onFrames([page(steps.slice(half), false, from === undefined && half === 0)]);
    return this.stay(session.followers, o.signal, onFrames);
  }

  private stay(set: Set<Watcher>, signal: AbortSignal, take: (f: InFrame[]) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const w: Watcher = { take, fail: (e) => end(() => reject(e)) };
      const end = (settle: () => void) => {
        set.delete(w);
        settle();
      };
      set.add(w);
      signal.addEventListener("abort", () => end(resolve), { once: true });
      if (signal.aborted) end(resolve);
    });
  }

  private decide(person: Principal, f: DecideFrame): Receipt {
    const known = this.closed.get(f.request_id);
    if (known?.decision) {
      const d = known.decision;
      if (d.outcome === "expired") return { status: "expired", decision: d };
      const same = d.principal.id === person.id && d.outcome === outcomeOf(f) && (d.message ?? "") === (f.message ?? "");
      return { status: same ? "duplicate" : "already_decided", decision: d };
    }
    const found = this.find(f.request_id);
    if (!found) throw new GatewayError(404, "not_found", "No pending interaction");
    const [, s] = found;
    if (person.kind === "viewer") throw new GatewayError(403, "forbidden", "viewers may not decide");
    if (f.digest !== s.digest) throw new GatewayError(400, "digest_mismatch", "this is not what is asked");
    const outcome = outcomeOf(f);
    if (!outcome) throw new GatewayError(400, "invalid", "invalid: decision: must be allow or deny", [{ field: "decision", problem: "must be allow or deny" }]);
    return { status: "accepted", decision: this.end(f.request_id, outcome, person, said(f)) };
  }

  private command(f: CommandFrame): Receipt {
    if (f.type !== "start_session" && !this.sessions.has(f.session_id ?? "")) throw new GatewayError(404, "not_found", "no such session");
    if (f.type === "send_message" && !f.text) throw new GatewayError(400, "invalid", "invalid: text: is missing", [{ field: "text", problem: "is missing" }]);
    if (!this.commands.has(f.command_id ?? "")) {
      this.commands.add(f.command_id ?? "");
      this.carriedOut.push(f);
    }
    return f.type === "start_session" ? { status: "accepted", session_id: "default.agents.started" } : { status: "accepted" };
  }

  private interaction(key: string, _o?: Call): Interaction {
    const closed = this.closed.get(key);
    if (closed) return { id: closed.request_id, ...closed };
    const found = this.find(key);
    if (!found) throw new GatewayError(404, "not_found", "no such interaction");
    return { id: found[1].request_id, state: "pending", ...found[1] };
  }

  private list(state: "pending" | "closed", limit: number): Interaction[] {
    const keys = state === "closed" ? [...this.closed.keys()].reverse() : [...this.sessions.values()].flatMap((s) => [...s.pending.keys()]);
    return keys.slice(0, limit).map((k) => this.interaction(k));
  }

  private session(key: string, s?: Summary): Session {
    let session = this.sessions.get(key);
    if (!session) {
      const now = new Date().toISOString();
      session = {
        state: {
          session_key: key, v: 1, session_id: key.slice(key.lastIndexOf(".") + 1), tenant: s?.tenant ?? "default", owner: s?.owner ?? "agents", worker: "w1", generation: 1,
          runtime: "demo", state: "assistant_turn", started_at: now, state_changed_at: now, pending_count: 0, pending_requests: [],
        },
        pending: new Map(), events: [], followers: new Set(),
      };
      this.sessions.set(key, session);
    }
    return session;
  }

  private stateOf(s: Session, closed?: Closed[]): ProcessState {
    const waiting = [...s.pending.values()];
    return { ...s.state, pending_count: waiting.length, pending_requests: waiting, ...(waiting[0] ? { pending_request: waiting[0] } : {}), ...(closed ? { closed } : {}) };
  }

  private change(s: Session, closed?: Closed[]): void {
    const n = ++this.n;
    const frame: InFrame = { ...this.stateOf(s, closed), type: "process_state", cursor: this.cursor(n) };
    this.log.push({ n, frame });
    this.tell(this.watchers, [frame]);
  }

  private tell(set: Set<Watcher>, frames: InFrame[]): void {
    for (const w of [...set]) w.take(frames);
  }

  private frameOf(key: string, events: Event[], cursor: string): InFrame {
    return { type: "event", session_id: key.slice(key.lastIndexOf(".") + 1), session_key: key, cursor, events };
  }

  private find(key: string): [Session, Summary] | undefined {
    for (const session of this.sessions.values()) {
      const s = session.pending.get(key);
      if (s) return [session, s];
    }
    return undefined;
  }

  private cursor(n: number): string {
    return `${this.epoch}-${n}`;
  }

  private position(cursor: string): number | undefined {
    const [epoch, n] = cursor.split("-");
    return Number(epoch) === this.epoch && n !== undefined ? Number(n) : undefined;
  }
}

/** What of an answer stands in its decision. Content is JSON there, as in the record. */
function said(f: DecideFrame): Partial<Decision> {
  return {
    ...(f.message ? { message: f.message } : {}),
    ...(f.content === undefined ? {} : { content: JSON.parse(String(f.content)) as unknown }),
  };
}

function outcomeOf(f: DecideFrame): Outcome | undefined {
  if (f.decision === "allow") return "allowed";
  if (f.decision === "deny") return "denied";
  if (f.answers !== undefined || f.content !== undefined) return "answered";
  if (f.action === "clarify") return "clarify";
  if (f.action === "dismiss") return "dismissed";
  return undefined;
}
