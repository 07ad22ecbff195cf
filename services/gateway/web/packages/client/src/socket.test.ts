// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { hello } from "./testing/fixtures.ts";
import { WebSocketTransport } from "./socket.ts";
import { memoryStorage } from "./drafts.ts";
import { LoginToken, takeLoginToken } from "./token.ts";
import type { ConnStatus, Handlers } from "./transport.ts";
import { backoff } from "./timing.ts";
import type { InFrame } from "./wire.ts";

class FakeWebSocket {
  readyState = 1;
  sent: string[] = [];
  closedWith: number | undefined;
  onopen: (() => void) | null = null;
  onmessage: ((e: { data: unknown }) => void) | null = null;
  onclose: ((e: { code: number; reason: string }) => void) | null = null;
  onerror: (() => void) | null = null;
  send(s: string): void { this.sent.push(s); }
  close(code: number): void { this.closedWith = code; }
  say(f: unknown): void { this.onmessage?.({ data: JSON.stringify(f) }); }
  lose(code: number, reason = ""): void { this.readyState = 3; this.onclose?.({ code, reason }); }
}

let sockets: FakeWebSocket[];
let frames: InFrame[];
let status: ConnStatus[];
let cursor: string;
const last = () => sockets.at(-1)!;

const handlers: Handlers = { cursor: () => cursor, onFrames: (f) => frames.push(...f), onStatus: (x) => status.push(x) };

function make(token: string | null = "T"): WebSocketTransport {
  const s = new WebSocketTransport({
    gateway: "http://x", token: () => token, random: () => 1,
    create: (url) => {
      expect(url).toBe("ws://x/api/ws");
      const ws = new FakeWebSocket();
      sockets.push(ws);
      return ws as unknown as WebSocket;
    },
  });
  s.open(handlers);
  return s;
}

function up(s: WebSocketTransport): FakeWebSocket {
  last().onopen?.();
  last().say(hello());
  void s;
  return last();
}

beforeEach(() => {
  vi.useFakeTimers();
  sockets = [];
  frames = [];
  status = [];
  cursor = "";
});
afterEach(() => vi.useRealTimers());

describe("socket", () => {
  it("authenticates with its first frame, with the cursor where there is one", () => {
    const s = make();
    last().onopen?.();
    expect(JSON.parse(last().sent[0]!)).toEqual({ type: "auth", token: "T" });
    cursor = "c7";
    last().lose(1006);
    vi.advanceTimersByTime(1000);
    last().onopen?.();
    expect(JSON.parse(last().sent[0]!)).toEqual({ type: "auth", token: "T", cursor: "c7" });
    s.close();
  });

  it("is online only after hello, and sends nothing before", () => {
    const s = make();
    last().onopen?.();
    expect(s.send({ type: "interrupt" })).toBe(false);
    up(s);
    expect(status.at(-1)).toEqual({ status: "online" });
    expect(s.send({ type: "interrupt" })).toBe(true);
    s.close();
  });

  it("takes one frame or a list of frames, and survives one that is no JSON", () => {
    const s = make();
    const ws = up(s);
    ws.say([{ type: "ping", server_time: "x" }, { type: "delivery" }, null, 7]);
    ws.onmessage?.({ data: "{broken" });
    ws.say({ type: "receipt", status: "accepted" });
    expect(frames.map((f) => f.type)).toEqual(["hello", "ping", "delivery", "receipt"]);
    expect(JSON.parse(ws.sent.at(-1)!)).toEqual({ type: "pong" });
    s.close();
  });

  it.each([1000, 1006, 3000, 3001, 3002, 3499])("comes back after code %i", (code) => {
    const s = make();
    up(s).lose(code);
    expect(status.at(-1)).toMatchObject({ status: "lost" });
    vi.advanceTimersByTime(600);
    expect(sockets).toHaveLength(2);
    s.close();
  });

  it.each([3501, 3502, 3503])("stays away after code %i", (code) => {
    const s = make();
    up(s).lose(code, "no");
    vi.advanceTimersByTime(600_000);
    expect(sockets).toHaveLength(1);
    expect(status.at(-1)).toEqual({ status: "stopped", code, reason: "no" });
    s.close();
  });

  it("signs out after a bad token and does not come back", () => {
    const s = make();
    last().lose(3500);
    vi.advanceTimersByTime(600_000);
    expect(status.at(-1)).toEqual({ status: "signed_out" });
    expect(sockets).toHaveLength(1);
    s.close();
  });

  it("without a token it asks nobody", () => {
    make(null);
    expect(sockets).toHaveLength(0);
    expect(status.at(-1)).toEqual({ status: "signed_out" });
  });

  it("B-27: a link that fell silent while the page slept is dropped and dialled anew on resume", () => {
    const s = make();
    const ws = up(s);
    vi.setSystemTime(Date.now() + 120_000); // frozen: no timer ran
    s.resume();
    expect(ws.closedWith).toBe(3002);
    vi.advanceTimersByTime(600);
    expect(sockets).toHaveLength(2);
    s.close();
  });

  it("B-27: a page that was put away whole believes no link that it had, and nothing can be sent before a new hello", () => {
    const s = make();
    const ws = up(s);
    s.resume();
    expect(sockets).toHaveLength(1); // it has spoken a moment ago
    s.resume(true);
    expect(ws.closedWith).toBe(3002);
    expect(sockets).toHaveLength(2);
    expect(status.at(-1)).toEqual({ status: "connecting" });
    expect(s.send({ type: "pong" })).toBe(false);
    up(s);
    expect(status.at(-1)).toEqual({ status: "online" });
    s.close();
  });

  it("a silent link is noticed without a resume too", () => {
    const s = make();
    up(s);
    vi.advanceTimersByTime(75_000);
    expect(sockets.length).toBeGreaterThan(1);
    s.close();
  });

  it("B-27: a silent link is noticed although the clock was set back meanwhile", () => {
    const s = make();
    const ws = up(s);
    vi.setSystemTime(Date.now() - 3_600_000);
    vi.advanceTimersByTime(75_000);
    expect(ws.closedWith).toBe(3002);
    expect(sockets.length).toBeGreaterThan(1);
    s.close();
  });

  it("B-27: a line on which nothing ever came, not even a hello, is given up sooner", () => {
    const s = make();
    last().onopen?.();
    vi.advanceTimersByTime(35_000);
    expect(sockets.length).toBeGreaterThan(1);
    s.close();
  });

  it("waits with full jitter below a growing cap", () => {
    expect(backoff(0, () => 1)).toBe(500);
    expect(backoff(3, () => 1)).toBe(4000);
    expect(backoff(50, () => 1)).toBe(15_000);
    expect(backoff(5, () => 0)).toBe(0);
  });
});

describe("token", () => {
  it("the login token leaves the address bar and is taken once", () => {
    location.hash = "#login=abc-_1";
    expect(takeLoginToken()).toBe("abc-_1");
    expect(location.hash).toBe("");
    expect(takeLoginToken()).toBeNull();
  });

  it("a login link that was cut in its middle is taken as it is: the page opens and says so", () => {
    location.hash = "#login=abc%";
    expect(takeLoginToken()).toBe("abc%");
    expect(location.hash).toBe("");
  });

  it("a broken session is none, and only the server says that one has expired", () => {
    const login = new LoginToken(localStorage);
    localStorage.clear();
    expect(login.get()).toBeNull();
    login.save({ token: "t", expires_at: "2099-01-01T00:00:00Z" });
    expect(login.get()).toBe("t");
    // By a clock of ours that is wrong it would be.
    login.save({ token: "u", expires_at: "2000-01-01T00:00:00Z" });
    expect(login.get()).toBe("u");
    localStorage.setItem("banksman.session", "{");
    expect(login.get()).toBeNull();
    login.drop();
    expect(localStorage.getItem("banksman.session")).toBeNull();
  });

  it("a session that a full storage does not take lasts as long as the page, and no longer than till its end", () => {
    const full = { ...memoryStorage(), setItem: () => { throw new DOMException("full", "QuotaExceededError"); } };
    const login = new LoginToken(full);
    login.save({ token: "t", expires_at: "2099-01-01T00:00:00Z" });
    expect(login.get()).toBe("t");
    login.drop();
    expect(login.get()).toBeNull();
  });
});
