import { Drafts, isEmpty, type KeyValue, memoryStorage } from "./drafts.ts";
import { Emitter } from "./emitter.ts";
import { BusyError, GatewayError, NotConnectedError, NoWordError, UnknownInteractionError } from "./errors.ts";
import type { Action } from "./reducer.ts";
import { isMe, type Item, pendingCount, pendingKeys, type Session, type State } from "./state.ts";
import { createStore, type Store } from "./store.ts";
import { backoff, newId } from "./timing.ts";
import type { Call, ConnStatus, Transport } from "./transport.ts";
import type { ClientFrame, ClientType, Decision, Event, InFrame, Receipt } from "./wire.ts";

/**
 * What a person says to a request, without the fields that name it. updated_input
 * and content are JSON as text: what was typed arrives as it was typed.
 */
export type Say = Pick<ClientFrame, "decision" | "answers" | "action" | "message" | "comment" | "scope" | "option_id" | "interrupt"> & {
  updated_input?: string;
  content?: string;
};

/** A command to a session, or the start of one. */
export type Command = Omit<ClientFrame, "type" | "ref"> & { type: Exclude<ClientType, "auth" | "pong" | "seen" | "subscribe" | "unsubscribe" | "pending_request_response"> };

/** No word for so long: it may be sent again. Milliseconds. */
export const UNSURE_AFTER = 5_000;
/** A worker has this long to take a command. Milliseconds. */
export const COMMAND_LIMIT = 20_000;

/** So much of what has ended is kept at least, and twice as much at most, beside what is held. */
const ENDED = 300;
/** So many ended sessions are kept, as a gateway does; and a tenth more at most. */
const OVER = 2000;
/** So many transcripts are kept of sessions that nobody follows any more. */
const LEFT = 5;

/** How much of what waits is asked for at once. */
const LIST = 1000;
/** So much has to end before a list that was not whole is asked for again. */
const PAGE = 200;

export interface ClientEvents {
  connection: ConnStatus;
  /** A snapshot is whole; how many requests wait. */
  ready: { pending: number };
  /** A request began to wait. Those of a snapshot come too. */
  pending: Item;
  /** A request does not wait any more. */
  closed: Item;
  /** How many wait, after each change of it. */
  count: number;
  session: Session;
  /** Steps of a followed session. */
  events: { session: string; events: Event[] };
  receipt: Receipt;
  /** Every frame, after it was taken in. */
  frame: InFrame;
}

export interface ClientOptions {
  transport: Transport;
  /** Where drafts are kept; without it they last as long as the client. */
  storage?: KeyValue;
  store?: Store;
}

interface Waiting {
  ref: string;
  frame: ClientFrame;
  promise: Promise<Receipt>;
  settle(r: Receipt): void;
  /** Ends the waiting: no word will come. */
  quit(): void;
}

/** A person's view of a gateway: what waits, what is said about it, and a way to answer. */
export class Client extends Emitter<ClientEvents> {
  readonly store: Store;
  readonly drafts: Drafts;
  private readonly transport: Transport;
  private readonly waiting = new Map<string, Waiting>(); // by ref
  private readonly followed = new Map<string, number>();
  private readonly asked = new Map<string, string>(); // ref of a subscribe frame -> session
  private readonly held = new Map<string, number>(); // by key
  private left: string[] = []; // sessions whose transcript nobody follows, the last one last
  private readonly refusals = new Map<string, { n: number; timer: ReturnType<typeof setTimeout> | undefined }>(); // by session
  /** How much was missing, and waited, when what waits was listed last. */
  private listed: { lack: number; total: number } | undefined;
  private listing = false;
  private failed = 0; // lists, one after the other
  private pause: ReturnType<typeof setTimeout> | undefined; // before the next one
  private line = 0; // counts the connections that began anew
  private whose = 0; // counts the changes of who is signed in

  constructor(o: ClientOptions) {
    super();
    this.transport = o.transport;
    this.store = o.store ?? createStore();
    this.drafts = new Drafts(o.storage ?? memoryStorage());
  }

  get state(): State {
    return this.store.get();
  }

  /** Takes up the connection; it comes back by itself until stop. */
  start(): void {
    this.transport.open({
      cursor: () => this.state.cursor,
      onFrames: (frames) => this.take(frames),
      onStatus: (status) => this.status(status),
    });
  }

  stop(): void {
    clearTimeout(this.pause);
    for (const session of [...this.refusals.keys()]) this.forget(session);
    this.transport.close();
  }

  /** Ends the connection and shows nothing any more: somebody else may sign in. */
  signOut(): void {
    this.transport.close();
    this.status({ status: "signed_out" });
  }

  /** Tries to connect now instead of when its pause is over; anew, also where there seems to be a connection. */
  retry(anew = false): void {
    if (this.state.conn.status === "stopped") this.start();
    else this.transport.resume(anew);
  }

  /** Resolves once all that waits is known. */
  async ready(o: Call = {}): Promise<void> {
    if (this.state.snapshot === "ready") return;
    await within<void>(o.signal, (resolve) => this.on("ready", () => resolve()));
  }

  /** All that waits, oldest first. */
  pending(): Item[] {
    const s = this.state;
    return pendingKeys(s).map((k) => s.items[k]!);
  }

  item(key: string): Item | undefined {
    return this.state.items[key];
  }

  /** Keeps an item in the state although it ended long ago, until the returned function is called: somebody looks at it. */
  hold(key: string): () => void {
    this.held.set(key, (this.held.get(key) ?? 0) + 1);
    let over = false;
    return () => {
      if (over) return;
      over = true;
      const left = this.held.get(key)! - 1;
      if (left > 0) this.held.set(key, left);
      else this.held.delete(key);
    };
  }

  /**
   * Answers an interaction. Whatever the gateway says is returned as its receipt,
   * refusals included. Without a word within 5 s it throws NoWordError, and the
   * same answer may be given again: it keeps its ref and counts once. A connection
   * that is lost meanwhile makes the answer be sent again when it is back. The
   * signal ends the waiting, not the answer.
   */
  async decide(key: string, say: Say, o: Call = {}): Promise<Receipt> {
    o.signal?.throwIfAborted();
    const s = this.state;
    const item = s.items[key];
    if (!item) throw new UnknownInteractionError(key);
    if (item.closed && item.decision) return told(item.decision);
    const frame: ClientFrame = {
      type: "pending_request_response",
      session_id: item.summary.session_key,
      request_id: key,
      request_type: item.summary.request_type,
      digest: item.summary.digest,
      // What stands on the screen, headline and risk included: the record says so.
      ...(item.summary.body?.shown ? { shown: item.summary.body.shown } : {}),
      ...say,
    };
    const old = s.sends[key];
    const same = old !== undefined && JSON.stringify({ ...old.frame, ref: undefined }) === JSON.stringify({ ...frame, ref: undefined });
    if (old?.state === "sending") {
      const under = this.waiting.get(old.ref);
      if (!same || !under) throw new BusyError(key);
      return within(o.signal, under.promise);
    }
    if (s.conn.status !== "online") throw new NotConnectedError();
    const ref = same ? old.ref : newId();
    const sent = { ...frame, ref };
    this.dispatch({ kind: "send", key, ref, frame: sent });
    if (!this.transport.send(sent)) {
      this.dispatch({ kind: "unsure", ref });
      throw new NotConnectedError();
    }
    return within(o.signal, this.await(sent, UNSURE_AFTER, () => this.dispatch({ kind: "unsure", ref })));
  }

  /** Sends a command; a worker carries the same command_id out once, so that sending it again is harmless. */
  async command(command: Command, o: Call = {}): Promise<Receipt> {
    o.signal?.throwIfAborted();
    const frame: ClientFrame = { command_id: newId(), ...command, ref: newId() };
    if (!this.transport.send(frame)) throw new NotConnectedError();
    return within(o.signal, this.await(frame, COMMAND_LIMIT));
  }

  /** Says that a person has these requests before their eyes, at most 50. A hint: false, or a loss on the way, only means that somebody may be alerted who need not be. */
  seen(keys: readonly string[]): boolean {
    return this.transport.send({ type: "seen", requests: [...keys] });
  }

  /** Fetches an interaction with its body. It resolves when it is known, or cannot be: item says which. */
  async load(key: string, o: Call = {}): Promise<void> {
    if (this.state.items[key]?.load === "loading") return;
    this.dispatch({ kind: "load", key, state: "loading" });
    await this.transport.interaction(key, o).then(
      this.still((interaction) => this.dispatch({ kind: "interaction", interaction })),
      this.still((e: unknown) => this.dispatch({ kind: "load", key, state: e instanceof GatewayError && e.status === 404 ? "missing" : "failed" })),
    );
  }

  /** Fetches an interaction that is not known here yet; undefined if there is none, or none that may be seen. What goes wrong is thrown. */
  async find(key: string, o: Call = {}): Promise<Item | undefined> {
    try {
      const { whose } = this;
      const interaction = await this.transport.interaction(key, o);
      if (whose !== this.whose) return undefined;
      this.dispatch({ kind: "interaction", interaction });
      return this.state.items[interaction.key];
    } catch (e) {
      if (e instanceof GatewayError && e.status === 404) return undefined;
      throw e;
    }
  }

  /** Fetches the newest decisions into the state. */
  async loadHistory(limit = 50, o: Call = {}): Promise<void> {
    if (this.state.history.state === "loading") return;
    this.dispatch({ kind: "history", state: "loading" });
    await this.transport.interactions("closed", limit, o).then(
      this.still((interactions) => this.dispatch({ kind: "history-ready", interactions })),
      this.still(() => this.dispatch({ kind: "history", state: "failed" })),
    );
  }

  /** Follows a session's transcript (state.transcripts) until the returned function is called or the signal ends. */
  follow(session: string, o: Call = {}): () => void {
    if (o.signal?.aborted) return () => undefined;
    const n = this.followed.get(session) ?? 0;
    this.followed.set(session, n + 1);
    if (n === 0) {
      this.left = this.left.filter((x) => x !== session);
      this.dispatch({ kind: "subscribe", session });
      this.subscribe(session);
    }
    let over = false;
    const end = () => {
      if (over) return;
      over = true;
      o.signal?.removeEventListener("abort", end);
      const left = (this.followed.get(session) ?? 1) - 1;
      if (left > 0) {
        this.followed.set(session, left);
        return;
      }
      this.followed.delete(session);
      this.forget(session);
      this.transport.send({ type: "unsubscribe", session_id: session });
      this.left.push(session);
      if (this.left.length > LEFT) this.dispatch({ kind: "forget", transcripts: this.left.splice(0, this.left.length - LEFT) });
    };
    o.signal?.addEventListener("abort", end);
    return end;
  }

  /** Changes the state by an action of the page's own, and tells of what came of it. */
  dispatch(a: Action): void {
    const before = this.state;
    this.store.dispatch(a);
    const after = this.state;
    if (before === after) return;
    if (before.snapshot === "loading" && after.snapshot === "ready") this.emit("ready", { pending: pendingCount(after) });
    if (before.items !== after.items && this.has("pending", "closed")) this.compare(before, after);
    if (before.sessions !== after.sessions) {
      for (const [key, session] of Object.entries(after.sessions)) {
        if (!before.sessions[key] && this.refusals.has(key)) this.subscribe(key);
        if (before.sessions[key] !== session) this.emit("session", session);
      }
    }
    if (this.has("count")) {
      const n = pendingCount(after);
      if (n !== pendingCount(before) || (before.snapshot !== after.snapshot && after.snapshot === "ready")) this.emit("count", n);
    }
  }

  private compare(before: State, after: State): void {
    for (const [key, item] of Object.entries(after.items)) {
      const old = before.items[key];
      if (old === item) continue;
      if (!item.closed && (!old || old.closed)) this.emit("pending", item);
      // The outcome may be learned later than the end.
      if (item.closed && (old ? !old.closed : item.watched)) this.emit("closed", item);
    }
  }

  private status(status: ConnStatus): void {
    this.dispatch({ kind: "conn", status });
    this.emit("connection", status);
  }

  private take(frames: InFrame[]): void {
    for (const f of frames) {
      const before = this.state;
      const other = f.type === "hello" && before.principal !== undefined && !isMe(before, f.principal);
      if (other) this.leaveBehind();
      if (f.type === "hello") this.drafts.own(f.principal);
      this.dispatch({ kind: "frame", frame: f, now: Date.now() });
      if (f.type === "hello" && !(other && f.recovered)) this.afterHello(f.recovered);
      if (f.type === "event" && f.events) this.emit("events", { session: f.session_key, events: f.events });
      if (f.type === "receipt") this.receipt(f);
      this.emit("frame", f);
      if (other && f.recovered) {
        // What follows goes on from what the one before was told: all is asked for anew.
        this.transport.resume(true);
        return;
      }
    }
    this.forgetEnded();
    this.fetchMissing();
  }

  /** Somebody else is signed in: what was on its way for the one before is not said again in their name. */
  private leaveBehind(): void {
    this.whose++;
    this.line++;
    this.listed = undefined;
    for (const w of [...this.waiting.values()]) w.quit();
  }

  /** Does it unless somebody else has signed in since it was begun. */
  private still<T>(f: (v: T) => void): (v: T) => void {
    const { whose } = this;
    return (v) => {
      if (whose === this.whose) f(v);
    };
  }

  /** A page is open for days: of what has ended it keeps the newest, what is looked at, and what has unsent words. */
  private forgetEnded(): void {
    const { items, sessions } = this.state;
    const ended = Object.entries(items).filter(([, i]) => i.closed);
    if (ended.length > 2 * ENDED) {
      const old = oldest(ended, ([, i]) => i.decision?.decided_at ?? i.summary.created_at, ended.length - ENDED).map(([key]) => key);
      const items = old.filter((key) => !this.held.has(key) && isEmpty(this.drafts.load(key)));
      if (items.length > 0) this.dispatch({ kind: "forget", items });
    }
    const over = Object.entries(sessions).filter(([key, x]) => x.pendingCount === 0 && (x.state === "dead" || x.runtime === "program") && !this.followed.has(key));
    if (over.length > 1.1 * OVER) this.dispatch({ kind: "forget", sessions: oldest(over, ([, x]) => x.state_changed_at, over.length - OVER).map(([key]) => key) });
  }

  private receipt(r: Receipt): void {
    const session = r.ref && this.asked.get(r.ref);
    if (session) {
      this.asked.delete(r.ref!);
      this.answered(session, r);
      return;
    }
    if (r.ref) {
      this.waiting.get(r.ref)?.settle(r);
      const key = this.state.refs[r.ref];
      // The person's own answer is in: its words are in the record now.
      const send = key ? this.state.sends[key] : undefined;
      const said = r.decision ?? (send?.ref === r.ref ? send?.frame : undefined); // it may be about an earlier try
      if (key && said && (r.status === "accepted" || r.status === "duplicate")) this.drafts.sent(key, said, this.state.items[key]?.summary.body?.input);
    }
    this.emit("receipt", r);
  }

  private afterHello(recovered: boolean): void {
    if (!recovered) {
      this.line++;
      this.listed = undefined;
    }
    this.asked.clear(); // their answers went with the old connection
    for (const session of this.followed.keys()) {
      this.dispatch({ kind: "subscribe", session }); // it is known, but where somebody else has come
      this.subscribe(session);
    }
    // Their receipts may have gone with the old connection. The gateway knows a repeat.
    for (const w of this.waiting.values()) this.transport.send(w.frame);
  }

  private subscribe(session: string): void {
    clearTimeout(this.refusals.get(session)?.timer);
    const from = this.state.transcripts[session]?.cursor;
    const ref = newId();
    this.asked.set(ref, session);
    this.transport.send({ type: "subscribe", session_id: session, ref, ...(from ? { from } : {}) });
  }

  /**
   * A session that was just started is known to no gateway until a worker takes it:
   * one that is refused is asked for again when it appears. What the gateway could
   * not do is asked for again by itself.
   */
  private answered(session: string, r: Receipt): void {
    if (!this.followed.has(session)) return;
    if (r.status === "accepted") {
      this.forget(session);
      this.dispatch({ kind: "followed", session, missing: false });
      return;
    }
    const old = this.refusals.get(session);
    clearTimeout(old?.timer);
    const n = old?.n ?? 0;
    const unknown = r.status === "not_found";
    const timer = unknown && !this.state.sessions[session] ? undefined : setTimeout(() => this.subscribe(session), 100 + backoff(n));
    this.refusals.set(session, { n: n + 1, timer });
    if (unknown) this.dispatch({ kind: "followed", session, missing: true });
  }

  private forget(session: string): void {
    clearTimeout(this.refusals.get(session)?.timer);
    this.refusals.delete(session);
  }

  /** Waits for the receipt of what was just sent. */
  private await(frame: ClientFrame & { ref?: string }, limit: number, late?: () => void): Promise<Receipt> {
    const ref = frame.ref!;
    let settle!: (r: Receipt) => void;
    let quit!: () => void;
    const promise = new Promise<Receipt>((resolve, reject) => {
      quit = () => {
        clearTimeout(timer);
        this.waiting.delete(ref);
        late?.();
        reject(new NoWordError(ref));
      };
      const timer = setTimeout(quit, limit);
      settle = (r) => {
        clearTimeout(timer);
        this.waiting.delete(ref);
        resolve(r);
      };
    });
    promise.catch(() => undefined); // whoever waits may have left
    this.waiting.set(ref, { ref, frame, promise, settle, quit });
    return promise;
  }

  // Endings that were only seen as an absence, and lists longer than a frame holds.
  private fetchMissing(): void {
    const s = this.state;
    if (s.snapshot !== "ready") return;
    for (const [key, item] of Object.entries(s.items)) {
      if (item.closed && item.outcome === undefined && item.load === "idle") void this.load(key);
    }
    void this.listWaiting();
  }

  /**
   * Fetches what waits beyond what frames list: at first, when more is missing than
   * the last list left, and when a page of it has ended since.
   */
  private async listWaiting(): Promise<void> {
    if (this.listing || this.pause) return;
    const now = lacking(this.state);
    if (!now) {
      this.listed = undefined;
      return;
    }
    const { listed } = this;
    if (listed && now.lack <= listed.lack && now.total > listed.total - PAGE) {
      listed.lack = now.lack;
      return;
    }
    this.listing = true;
    try {
      const { line, whose } = this;
      const asked = Object.entries(this.state.items).flatMap(([key, i]) => (i.closed ? [] : [key]));
      const interactions = await this.transport.interactions("pending", LIST);
      this.failed = 0;
      if (whose === this.whose) {
        const grown = (lacking(this.state)?.lack ?? 0) > now.lack;
        this.dispatch({ kind: "extra", interactions, whole: interactions.length < LIST, asked });
        const after = lacking(this.state);
        // What came meanwhile may not be in it.
        this.listed = line !== this.line ? undefined : after && { ...after, lack: grown ? 0 : after.lack };
      }
    } catch {
      this.listed = undefined;
      this.pause = setTimeout(() => {
        this.pause = undefined;
        void this.listWaiting();
      }, 100 + backoff(this.failed++));
      return;
    } finally {
      this.listing = false;
    }
    void this.listWaiting();
  }
}

/** How many are told of and not known, or known and not told of any more, and how many wait; undefined where frames list all. */
function lacking(s: State): { lack: number; total: number } | undefined {
  const sessions = Object.values(s.sessions);
  if (!sessions.some((x) => x.cut)) return undefined;
  return { lack: sessions.reduce((n, x) => n + Math.abs(x.pendingCount - x.pending.length), 0), total: pendingCount(s) };
}

function oldest<T>(list: T[], when: (x: T) => string, n: number): T[] {
  return list.sort((a, b) => (when(a) < when(b) ? -1 : 1)).slice(0, n);
}

/** The receipt that the gateway would give for what is known to be decided. */
function told(decision: Decision): Receipt {
  return { status: decision.outcome === "expired" ? "expired" : "already_decided", decision };
}

/** Waits no longer than the signal lets it; start may return what ends its own waiting. */
async function within<T>(signal: AbortSignal | undefined, what: Promise<T> | ((resolve: (v: T) => void) => () => void)): Promise<T> {
  signal?.throwIfAborted();
  let leave: (() => void) | undefined;
  const stopped = new AbortController();
  try {
    return await new Promise<T>((resolve, reject) => {
      signal?.addEventListener("abort", () => reject(signal.reason), { signal: stopped.signal });
      if (typeof what === "function") leave = what(resolve);
      else what.then(resolve, reject);
    });
  } finally {
    stopped.abort();
    leave?.();
  }
}

/** Tries to connect at once when the page is shown again or the network is back; returns what ends that. */
export function resumeWithPage(client: Client): () => void {
  const ended = new AbortController();
  const { signal } = ended;
  const back = (anew: boolean) => {
    if (client.state.conn.status !== "stopped") client.retry(anew);
  };
  // One that the browser had put away whole shows what was then: nothing can be
  // decided in it before the server has said what waits now.
  const shown = (e: globalThis.Event) => {
    if (e instanceof PageTransitionEvent && e.persisted) {
      back(true);
      return;
    }
    if (document.visibilityState === "visible") back(false);
  };
  document.addEventListener("visibilitychange", shown, { signal });
  window.addEventListener("online", () => back(false), { signal });
  window.addEventListener("pageshow", shown, { signal });
  return () => ended.abort();
}
