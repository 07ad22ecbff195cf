// What a client needs of a way to the gateway, and what all ways share: coming
// back after a loss with full jitter, noticing silence, and giving up where
// coming back is useless. Nothing here knows a framework or holds product state.
import { backoff } from "./timing.ts";
import { CLOSE_STALE, type ClientFrame, type InFrame, type Interaction } from "./wire.ts";

export type ConnStatus =
  | { status: "connecting" }
  | { status: "online" }
  /** at: our clock, when the next attempt starts */
  | { status: "lost"; at: number }
  | { status: "signed_out" }
  /** code: a close code of the protocol, or an HTTP status */
  | { status: "stopped"; code: number; reason: string };

export interface Handlers {
  /** Where the last snapshot or change ended; empty asks for a snapshot. */
  cursor(): string;
  onFrames(frames: InFrame[]): void;
  onStatus(status: ConnStatus): void;
}

export interface Call {
  signal?: AbortSignal;
}

/** One way to the gateway. A closed one can be opened again. */
export interface Transport {
  /** Takes up the connection and keeps it, through losses, until close. */
  open(h: Handlers): void;
  close(): void;
  /** Tries now: the page was shown again, or the network came back. anew: whatever seems to be there is not believed. */
  resume(anew?: boolean): void;
  /** Hands a frame over and says whether there is a connection. Its receipt comes as a frame. */
  send(frame: ClientFrame): boolean;
  interaction(key: string, o?: Call): Promise<Interaction>;
  interactions(state: "pending" | "closed", limit: number, o?: Call): Promise<Interaction[]>;
}

/** A link without a single word for this long is dead, whatever TCP thinks. Milliseconds. */
const SILENCE = 60_000;
/** After a tab slept, less trust: ms of silence that are still believed. */
const SILENCE_ON_RESUME = 30_000;
/** A line on which the gateway never said hello is no line: ms until another one is tried. */
const SILENCE_ON_DIAL = 20_000;

export abstract class Link implements Transport {
  private handlers: Handlers | undefined;
  private attempt = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private watch: ReturnType<typeof setInterval> | undefined;
  private heardAt = { ticks: 0, wall: 0 };
  private closed = true;
  private dialled = false;
  /** Whether hello has come. */
  protected ready = false;

  constructor(private readonly random: () => number = Math.random) {}

  /** Starts one connection; it reports by heard, frames, lost and stop. */
  protected abstract connect(): void;
  /** Drops the connection without a word of its own. */
  protected abstract drop(code: number): void;
  abstract send(frame: ClientFrame): boolean;
  abstract interaction(key: string, o?: Call): Promise<Interaction>;
  abstract interactions(state: "pending" | "closed", limit: number, o?: Call): Promise<Interaction[]>;

  open(h: Handlers): void {
    if (!this.closed) return;
    this.handlers = h;
    this.closed = false;
    this.attempt = 0;
    this.watch = setInterval(() => this.checkSilence(this.ready ? SILENCE : SILENCE_ON_DIAL), 10_000);
    this.dial();
  }

  close(): void {
    this.end();
    this.drop(1000);
  }

  resume(anew = false): void {
    if (this.closed) return;
    if (this.dialled && anew) this.drop(CLOSE_STALE);
    else if (this.dialled) {
      this.checkSilence(SILENCE_ON_RESUME);
      return;
    }
    this.dial();
  }

  protected cursor(): string {
    return this.handlers?.cursor() ?? "";
  }

  protected heard(): void {
    this.heardAt = { ticks: performance.now(), wall: Date.now() };
  }

  protected frames(list: unknown[]): void {
    if (this.closed) return;
    this.heard();
    const frames = list.filter((f): f is InFrame => f !== null && typeof f === "object" && "type" in f && typeof f.type === "string");
    for (const f of frames) {
      if (f.type === "ping") this.send({ type: "pong" });
      if (f.type === "hello") {
        this.ready = true;
        this.attempt = 0;
        this.handlers?.onStatus({ status: "online" });
      }
    }
    if (frames.length > 0) this.handlers?.onFrames(frames);
  }

  /** The connection is gone; another one follows. */
  protected lost(): void {
    this.dialled = this.ready = false;
    if (this.closed) return;
    const wait = backoff(this.attempt++, this.random);
    this.handlers?.onStatus({ status: "lost", at: Date.now() + wait });
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.dial(), wait);
  }

  /** The connection is gone for good. */
  protected stop(status: ConnStatus): void {
    const was = this.closed;
    this.end();
    if (!was) this.handlers?.onStatus(status);
  }

  private end(): void {
    this.closed = true;
    this.dialled = this.ready = false;
    clearTimeout(this.retry);
    clearInterval(this.watch);
  }

  private dial(): void {
    clearTimeout(this.retry);
    this.dialled = true;
    this.ready = false;
    this.heard();
    this.handlers?.onStatus({ status: "connecting" });
    // Whoever hears of it may have closed.
    if (!this.closed) this.connect();
  }

  private checkSilence(limit: number): void {
    // One of them stands still while the machine sleeps, the other may be set back.
    const silence = Math.max(performance.now() - this.heardAt.ticks, Date.now() - this.heardAt.wall);
    if (!this.dialled || silence <= limit) return;
    this.drop(CLOSE_STALE);
    this.lost();
  }
}
