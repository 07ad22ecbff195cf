import { GatewayError } from "./errors.ts";
import { backoff } from "./timing.ts";
import { type Call, Link } from "./transport.ts";
import { CLOSE_TOO_MANY, type ClientFrame, type ClientType, type InFrame, type Interaction, type Receipt, type Status } from "./wire.ts";

export type DecideFrame = ClientFrame & { type: "pending_request_response"; request_id: string };
export type CommandFrame = ClientFrame & { type: Exclude<ClientType, "auth" | "seen" | "subscribe" | "unsubscribe" | "pending_request_response" | "pong"> };

/**
 * What a host hands over whose program holds the interactions itself, such as an
 * editor plugin. The frames are those of the WebSocket. Every signal ends what it
 * was given to. A thrown GatewayError says no; anything else thrown means that
 * nobody knows whether it was done.
 */
export interface Host {
  /**
   * Calls onFrames with hello, then the snapshot in pages or, where the cursor is
   * still good, what was missed since, then every change. Settles when it cannot
   * go on; it is called again then.
   */
  watch(o: { cursor: string; signal: AbortSignal }, onFrames: (frames: InFrame[]) => void): Promise<void>;
  /** Calls onFrames with the event frames of one session: what is stored after from, then what happens. */
  subscribe(session: string, o: { from: string; signal: AbortSignal }, onFrames: (frames: InFrame[]) => void): Promise<void>;
  decide(frame: DecideFrame, o: { signal: AbortSignal }): Promise<Receipt>;
  command(frame: CommandFrame, o: { signal: AbortSignal }): Promise<Receipt>;
  /** A person has these before their eyes. A host without it has nobody to alert. */
  seen?(keys: readonly string[], o: { signal: AbortSignal }): Promise<void>;
  interaction(key: string, o?: Call): Promise<Interaction>;
  interactions(state: "pending" | "closed", limit: number, o?: Call): Promise<Interaction[]>;
}

const statuses: ReadonlySet<string> = new Set<Status>(["accepted", "duplicate", "already_decided", "expired", "not_found", "invalid", "forbidden", "digest_mismatch", "unavailable"]);

/** A host's own functions as a transport. */
export class DirectTransport extends Link {
  private running: AbortController | undefined;
  /** Of what was sent: a lost watch does not call it back, closing does. */
  private life = new AbortController();
  private readonly followed = new Map<string, AbortController>();

  constructor(
    private readonly host: Host,
    private readonly o: { random?: () => number } = {},
  ) {
    super(o.random);
  }

  interaction(key: string, o?: Call): Promise<Interaction> {
    return this.host.interaction(key, o);
  }

  interactions(state: "pending" | "closed", limit: number, o?: Call): Promise<Interaction[]> {
    return this.host.interactions(state, limit, o);
  }

  override close(): void {
    this.life.abort();
    this.life = new AbortController();
    super.close();
  }

  send(frame: ClientFrame): boolean {
    if (!this.running || !this.ready) return false;
    switch (frame.type) {
      case "auth":
      case "pong":
        break;
      case "subscribe":
        void this.follow(frame);
        break;
      case "unsubscribe":
        this.unfollow(frame.session_id ?? "");
        if (frame.ref) this.say(frame, { status: "accepted" });
        break;
      case "seen":
        this.host.seen?.(frame.requests ?? [], this.life).catch(() => undefined); // a hint
        break;
      case "pending_request_response":
        void this.answer(frame, (o) => this.host.decide(frame as DecideFrame, o));
        break;
      default:
        void this.answer(frame, (o) => this.host.command(frame as CommandFrame, o));
    }
    return true;
  }

  protected connect(): void {
    const run = new AbortController();
    this.running = run;
    // Never at once, though a host may answer or throw where it stands: whoever
    // starts a client has time to listen.
    const watch = async () => {
      await Promise.resolve();
      if (this.running !== run) return;
      await this.host.watch({ cursor: this.cursor(), signal: run.signal }, (frames) => {
        if (this.running === run) this.frames(frames);
      });
    };
    watch().then(() => this.ended(run, undefined), (e: unknown) => this.ended(run, e));
  }

  protected drop(): void {
    const run = this.running;
    this.running = undefined;
    for (const session of [...this.followed.keys()]) this.unfollow(session);
    run?.abort();
  }

  private ended(run: AbortController, e: unknown): void {
    if (this.running !== run) return;
    this.drop();
    if (!(e instanceof GatewayError) || e.status >= 500 || e.status === 0) this.lost();
    else this.refused(e);
  }

  private refused(e: GatewayError): void {
    if (e.status === 401) this.stop({ status: "signed_out" });
    else this.stop({ status: "stopped", code: e.status === 429 ? CLOSE_TOO_MANY : e.status, reason: e.message });
  }

  private async answer(frame: ClientFrame, ask: (o: { signal: AbortSignal }) => Promise<Receipt>): Promise<void> {
    const { signal } = this.life;
    try {
      const r = await ask({ signal });
      if (!signal.aborted) this.say(frame, r);
    } catch (e) {
      // Without a word of the gateway nobody knows; whoever sent it may send it again.
      if (e instanceof GatewayError && !signal.aborted) this.denied(frame, e);
    }
  }

  private denied(frame: ClientFrame, e: GatewayError): void {
    if (e.status === 401) {
      this.drop();
      this.refused(e);
      return;
    }
    const status = statuses.has(e.code) ? (e.code as Status) : e.status >= 500 || e.status === 429 ? "unavailable" : "invalid";
    this.say(frame, { status, error: e.message, fields: [...e.fields], decision: e.decision });
  }

  private say(frame: ClientFrame, r: Receipt): void {
    this.frames([{ ...r, type: "receipt", ref: frame.ref, request_id: r.request_id ?? frame.request_id, session_id: r.session_id ?? frame.session_id }]);
  }

  private unfollow(session: string): void {
    this.followed.get(session)?.abort();
    this.followed.delete(session);
  }

  private async follow(frame: ClientFrame): Promise<void> {
    const session = frame.session_id ?? "";
    this.unfollow(session);
    const own = new AbortController();
    this.followed.set(session, own);
    let from = frame.from ?? "";
    let told = frame.ref === undefined;
    for (let n = 0; !own.signal.aborted; ) {
      try {
        await this.host.subscribe(session, { from, signal: own.signal }, (frames) => {
          if (own.signal.aborted) return;
          n = 0;
          if (!told) this.say(frame, { status: "accepted" });
          told = true;
          for (const f of frames) if (f.type === "event" && f.cursor) from = f.cursor;
          this.frames(frames);
        });
      } catch (e) {
        if (e instanceof GatewayError && e.status < 500 && e.status !== 429 && e.status !== 0 && !own.signal.aborted) {
          this.followed.delete(session);
          this.denied(frame, e);
          return;
        }
      }
      await pause(backoff(n++, this.o.random), own.signal);
    }
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
    if (signal.aborted) end();
  });
}
