// The one WebSocket of a page: authenticates, answers pings, comes back after a
// loss with full jitter, and gives up where the server says that returning is
// useless. It knows no framework and holds no state of the product.
import { backoff } from "./timing";
import { CLOSE_BAD_AUTH, CLOSE_RECONNECT_MAX, CLOSE_STALE, type ClientFrame, type InFrame } from "./wire";

export type ConnStatus =
  | { status: "connecting" }
  | { status: "online" }
  /** at: our clock, when the next attempt starts */
  | { status: "lost"; at: number }
  | { status: "signed_out" }
  | { status: "stopped"; code: number; reason: string };

export interface SocketOptions {
  url: string;
  token: () => string | null;
  /** Where the last snapshot or change ended; empty asks for a snapshot. */
  cursor: () => string;
  onFrames: (frames: InFrame[]) => void;
  onStatus: (status: ConnStatus) => void;
  create?: (url: string) => WebSocket;
  random?: () => number;
}

/** A link without a single frame for this long is dead, whatever TCP thinks. */
const SILENCE = 60_000;
/** After a tab slept, less trust: ms of silence that are still believed. */
const SILENCE_ON_RESUME = 30_000;

export class Socket {
  private ws: WebSocket | null = null;
  private attempt = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private watch: ReturnType<typeof setInterval> | undefined;
  private heard = 0;
  private closed = true;
  private ready = false;

  constructor(private readonly o: SocketOptions) {}

  open(): void {
    if (!this.closed) return;
    this.closed = false;
    this.attempt = 0;
    this.watch = setInterval(() => this.checkSilence(SILENCE), 10_000);
    this.dial();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.retry);
    clearInterval(this.watch);
    this.drop(1000);
  }

  /** Sends if the link is up and says whether it did. */
  send(frame: ClientFrame): boolean {
    if (!this.ws || !this.ready || this.ws.readyState !== 1) return false;
    this.ws.send(JSON.stringify(frame));
    return true;
  }

  /** The page was shown again or the network came back. */
  resume(): void {
    if (this.closed) return;
    if (this.ws) {
      this.checkSilence(SILENCE_ON_RESUME);
      return;
    }
    clearTimeout(this.retry);
    this.dial();
  }

  private checkSilence(limit: number): void {
    if (this.ws && Date.now() - this.heard > limit) {
      this.drop(CLOSE_STALE);
      this.later();
    }
  }

  private drop(code: number): void {
    const ws = this.ws;
    this.ws = null;
    this.ready = false;
    if (!ws) return;
    ws.onopen = ws.onmessage = ws.onclose = ws.onerror = null;
    ws.close(code);
  }

  private dial(): void {
    const token = this.o.token();
    if (!token) {
      this.stop({ status: "signed_out" });
      return;
    }
    this.o.onStatus({ status: "connecting" });
    const ws = (this.o.create ?? ((url) => new WebSocket(url)))(this.o.url);
    this.ws = ws;
    this.heard = Date.now();
    ws.onopen = () => {
      const cursor = this.o.cursor();
      ws.send(JSON.stringify(cursor ? { type: "auth", token, cursor } : { type: "auth", token }));
    };
    ws.onmessage = (e: MessageEvent) => this.receive(ws, e.data);
    ws.onclose = (e: CloseEvent) => {
      if (this.ws !== ws) return;
      this.ws = null;
      this.ready = false;
      if (e.code === CLOSE_BAD_AUTH) this.stop({ status: "signed_out" });
      else if (e.code > CLOSE_RECONNECT_MAX)
        this.stop({ status: "stopped", code: e.code, reason: e.reason });
      else this.later();
    };
  }

  private receive(ws: WebSocket, data: unknown): void {
    if (this.ws !== ws || typeof data !== "string") return;
    this.heard = Date.now();
    let frames: InFrame[];
    try {
      const parsed: unknown = JSON.parse(data);
      frames = (Array.isArray(parsed) ? parsed : [parsed]) as InFrame[];
    } catch {
      return; // one bad frame must not cost the link
    }
    frames = frames.filter((f) => f !== null && typeof f === "object" && typeof f.type === "string");
    for (const f of frames) {
      if (f.type === "ping") this.send({ type: "pong" });
      if (f.type === "hello") {
        this.ready = true;
        this.attempt = 0;
        this.o.onStatus({ status: "online" });
      }
    }
    this.o.onFrames(frames);
  }

  private later(): void {
    if (this.closed) return;
    const wait = backoff(this.attempt++, this.o.random);
    this.o.onStatus({ status: "lost", at: Date.now() + wait });
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.dial(), wait);
  }

  private stop(status: ConnStatus): void {
    this.closed = true;
    clearTimeout(this.retry);
    clearInterval(this.watch);
    this.o.onStatus(status);
  }
}
