import { type CommandFrame, type DecideFrame, DirectTransport, type Host } from "./direct.ts";
import { GatewayError } from "./errors.ts";
import { Gateway, type GatewayOptions } from "./http.ts";
import { parse } from "./parse.ts";
import { readSse, type SseEvent } from "./sse.ts";
import type { Call } from "./transport.ts";
import type { Event, Events, InFrame, Interaction, Receipt } from "./wire.ts";

export interface HttpOptions extends GatewayOptions {
  random?: () => number;
}

/**
 * Everything over HTTP: one stream of server-sent events for what waits, one for
 * each session that is followed, and a request for each answer. For networks
 * that let no WebSocket through.
 */
export class HttpTransport extends DirectTransport {
  constructor(o: HttpOptions) {
    super(new HttpHost(o), o);
  }
}

class HttpHost implements Host {
  private readonly http: Gateway;
  constructor(private readonly o: HttpOptions) {
    this.http = new Gateway(o);
  }

  async watch(o: { cursor: string; signal: AbortSignal }, onFrames: (frames: InFrame[]) => void): Promise<void> {
    if (!this.o.token()) throw new GatewayError(401, "unauthorized", "Nobody is signed in.");
    const body = await this.stream("/api/events", o.cursor, o.signal);
    await readSse(body, (items) => {
      const frames: InFrame[] = [];
      for (const item of items) {
        const f = "data" in item ? read(item.data) : undefined;
        if (f !== undefined) frames.push(f as InFrame);
      }
      onFrames(frames);
    });
  }

  async subscribe(session: string, o: { from: string; signal: AbortSignal }, onFrames: (frames: InFrame[]) => void): Promise<void> {
    const body = await this.stream(`/api/sessions/${encodeURIComponent(session)}/events`, o.from, o.signal);
    const collect = new Collector(session, o.from);
    await readSse(body, (items) => {
      for (const item of items) {
        if (!("comment" in item)) collect.add(item);
        else if (item.comment === "live") onFrames([collect.live()]);
      }
      const f = collect.frame();
      if (f) onFrames([f]);
    });
  }

  decide(frame: DecideFrame, o: { signal: AbortSignal }): Promise<Receipt> {
    const { type: _, session_id: _s, ...body } = frame;
    return this.http.call("POST", `/api/interactions/${encodeURIComponent(frame.request_id)}/decision`, { body, ...o });
  }

  async command(frame: CommandFrame, o: { signal: AbortSignal }): Promise<Receipt> {
    const { type, ref: _r, session_id: session, ...body } = frame;
    if (type === "start_session") {
      const r = await this.http.call<{ session_id?: string }>("POST", "/api/sessions", { body, ...o });
      return { status: "accepted", session_id: r.session_id };
    }
    await this.http.call("POST", `/api/sessions/${encodeURIComponent(session ?? "")}/${routes[type]}`, { body, ...o });
    return { status: "accepted" };
  }

  async seen(keys: readonly string[], o: { signal: AbortSignal }): Promise<void> {
    await this.http.call("POST", "/api/seen", { body: { requests: keys }, ...o });
  }

  interaction(key: string, o?: Call): Promise<Interaction> {
    return this.http.interaction(key, o);
  }

  interactions(state: "pending" | "closed", limit: number, o?: Call): Promise<Interaction[]> {
    return this.http.interactions(state, limit, o);
  }

  private async stream(path: string, last: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (last !== "") headers["Last-Event-ID"] = last;
    const res = await this.http.send("GET", path, { headers, signal });
    if (!res.body) throw new TypeError("the answer has no body");
    return res.body;
  }
}

const routes: Record<Exclude<CommandFrame["type"], "start_session">, string> = {
  send_message: "message",
  interrupt: "interrupt",
  stop_session: "stop",
  set_mode: "mode",
};

/** Makes event frames of a session's server-sent events. */
class Collector {
  private events: Event[] = [];
  private reset = false;
  private replaying = true;
  private cursor: string;

  constructor(
    private readonly session: string,
    from: string,
  ) {
    this.cursor = from;
  }

  add(e: SseEvent): void {
    if (e.event === "reset") {
      this.reset = true;
      this.events = [];
      return;
    }
    this.events.push({ type: e.event, at: e.at, data: read(e.data), ...(e.id ? { cursor: e.id } : {}) });
  }

  /** The frame that ends what was stored; there is one even if nothing was. */
  live(): Events {
    this.replaying = false;
    return this.cut(this.events.length);
  }

  /**
   * What is whole so far. Events of one cursor are not separated, or whoever
   * resumes there would get some of them twice: only the last one has the id.
   * Deltas stand for themselves.
   */
  frame(): Events | undefined {
    let n = 0;
    let whole = true;
    this.events.forEach((e, i) => {
      if (e.cursor || (whole && (e.type === "text_delta" || e.type === "tool_call_delta"))) {
        n = i + 1;
        whole = true;
      } else whole = false;
    });
    return n > 0 ? this.cut(n) : undefined;
  }

  private cut(n: number): Events {
    const events = this.events.splice(0, n);
    for (const e of events) if (e.cursor) this.cursor = e.cursor;
    const f: Events = {
      type: "event",
      session_id: this.session.slice(this.session.lastIndexOf(".") + 1),
      session_key: this.session,
      cursor: this.cursor,
      events,
      ...(this.reset ? { reset: true } : {}),
      ...(this.replaying ? { more: true } : {}),
    };
    this.reset = false;
    return f;
  }
}

/** What a piece of JSON holds; undefined if it is none: one bad event must not cost the stream. */
function read(text: string): unknown {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}
