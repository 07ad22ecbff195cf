import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { HttpTransport } from "./httpsse.ts";
import type { ConnStatus } from "./transport.ts";
import type { InFrame } from "./wire.ts";

let status: ConnStatus[];
let asked: { url: string; headers: Record<string, string> }[];

function start(answers: (() => Promise<Response>)[], cursor = ""): HttpTransport {
  const t = new HttpTransport({
    gateway: "http://x/", token: () => "T", random: () => 1,
    fetch: (url, init) => {
      asked.push({ url: String(url), headers: init!.headers as Record<string, string> });
      return (answers.shift() ?? (() => new Promise<Response>(() => undefined)))();
    },
  });
  t.open({ cursor: () => cursor, onFrames: () => undefined, onStatus: (s) => status.push(s) });
  return t;
}

const says = (code: number, body: object = {}) => () => Promise.resolve(new Response(JSON.stringify(body), { status: code }));

beforeEach(() => {
  vi.useFakeTimers();
  status = [];
  asked = [];
});
afterEach(() => vi.useRealTimers());

describe("the stream over HTTP", () => {
  it("asks with the token and, on coming back, with where it was", async () => {
    const t = start([], "c7");
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toEqual([{ url: "http://x/api/events", headers: { Accept: "text/event-stream", Authorization: "Bearer T", "Last-Event-ID": "c7" } }]);
    t.close();
  });

  it.each([
    [401, { status: "signed_out" }],
    [429, { status: "stopped", code: 3502, reason: "too many event streams" }],
    [421, { status: "stopped", code: 421, reason: "too many event streams" }],
  ] as const)("stays away after %i", async (code, want) => {
    const t = start([says(code, { code: "x", error: "too many event streams" })]);
    await vi.advanceTimersByTimeAsync(600_000);
    expect(status.at(-1)).toEqual(want);
    expect(asked).toHaveLength(1);
    t.close();
  });

  it.each([
    ["503", says(503)],
    ["an end", says(200)],
    ["a failure of the network", () => Promise.reject(new TypeError("no network"))],
  ])("comes back after %s", async (_name, answer) => {
    const t = start([answer]);
    await vi.advanceTimersByTimeAsync(499);
    expect(status.at(-1)).toMatchObject({ status: "lost" });
    expect(asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(2);
    expect(asked).toHaveLength(2);
    t.close();
  });

  it("B-27: a stream that fell silent is dropped and asked for anew", async () => {
    const t = start([]);
    await vi.advanceTimersByTimeAsync(75_000);
    expect(asked.length).toBeGreaterThan(1);
    t.close();
  });

  it("close ends what is under way and nothing follows", async () => {
    const t = start([says(503)]);
    await vi.advanceTimersByTimeAsync(10);
    t.close();
    await vi.advanceTimersByTimeAsync(600_000);
    expect(asked).toHaveLength(1);
  });
});

describe("a session's stream", () => {
  it("the events of one cursor stay together however they arrive, and deltas stand for themselves", async () => {
    let push!: (text: string) => void;
    const stream = (first: string) => () => {
      const body = new ReadableStream<Uint8Array>({
        start(c) {
          push = (text) => c.enqueue(new TextEncoder().encode(text));
          push(first);
        },
      });
      return Promise.resolve(new Response(body));
    };
    const got: InFrame[] = [];
    const answers = [stream('data: {"type":"hello","server_time":"","cursor":"h"}\n\n'), stream("event: reset\ndata: {}\n\n: live\n\n")];
    const t = new HttpTransport({ gateway: "http://x", token: () => "T", fetch: () => answers.shift()!() });
    t.open({ cursor: () => "", onFrames: (f) => got.push(...f), onStatus: () => undefined });
    await vi.advanceTimersByTimeAsync(0);
    t.send({ type: "subscribe", session_id: "default.agents.s1", ref: "r" });
    const since = async (text: string) => {
      await vi.advanceTimersByTimeAsync(0);
      got.length = 0;
      push(text);
      await vi.advanceTimersByTimeAsync(0);
      return got.map((f) => (f.type === "event" ? [f.cursor, f.events!.map((e) => e.type).join(" ")] : f.type));
    };
    await vi.advanceTimersByTimeAsync(0);
    expect(got.map((f) => f.type)).toEqual(["hello", "receipt", "event"]);
    expect(got[2]).toMatchObject({ session_key: "default.agents.s1", session_id: "s1", reset: true, events: [] });
    expect(await since("event: interaction_pending\ndata: {}\n\n")).toEqual([]);
    expect(await since("event: interaction_request\ndata: {}\n\nid: c1\nevent: appr")).toEqual([]);
    expect(await since("oval_required\ndata: {}\n\nevent: text_delta\ndata: {}\n\n")).toEqual([["c1", "interaction_pending interaction_request approval_required text_delta"]]);
    expect(await since("event: text_delta\ndata: {}\n\nevent: text\ndata: {}\n\n")).toEqual([["c1", "text_delta"]]);
    expect(await since("id: c2\nevent: done\ndata: {}\n\n")).toEqual([["c2", "text done"]]);
    t.close();
  });
});
