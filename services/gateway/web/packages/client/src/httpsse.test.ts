import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { HttpTransport } from "./httpsse.ts";
import type { ConnStatus } from "./transport.ts";

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
