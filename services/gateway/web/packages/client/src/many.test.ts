import { beforeEach, describe, expect, it, vi } from "vitest";
import { Client } from "./client.ts";
import { at, bash, closed, hello, processState, session } from "./testing/fixtures.ts";
import type { Handlers, Transport } from "./transport.ts";
import type { Interaction, Summary } from "./wire.ts";

/** A session of which frames tell the oldest 200; the list tells all, once it is let out. */
let waiting: Summary[];
let asked: { answer: () => void; fail: () => void }[];
let handlers: Handlers;
let client: Client;
let n: number;

const next = () => bash(`n${++n}`, "ls", { created_at: at(n) });
const settled = async () => { for (let i = 0; i < 5; i++) await Promise.resolve(); };
const answer = async (i: number) => {
  asked[i]!.answer();
  await settled();
};
const frame = (...ended: Summary[]) => {
  waiting = waiting.filter((w) => !ended.includes(w));
  handlers.onFrames([processState(waiting.slice(0, 200), { pending_count: waiting.length, closed: ended.map((e) => closed(e, "allowed")) })]);
};
const snapshot = () => handlers.onFrames([hello({ recovered: false }), { type: "active_processes", cursor: "c", sessions: [session(waiting.slice(0, 200), { pending_count: waiting.length })], more: false }]);

beforeEach(() => {
  n = 0;
  asked = [];
  waiting = Array.from({ length: 500 }, next);
  const transport = {
    open: (h: Handlers) => { handlers = h; },
    send: () => true,
    close: () => undefined,
    resume: () => undefined,
    interaction: (key: string) => Promise.resolve({ id: key, state: "pending", ...waiting.find((w) => w.key === key)! } as Interaction),
    interactions: (_: string, limit: number) => new Promise((resolve, reject) => {
      // As it was when it was asked for.
      const list = waiting.slice(0, limit).map((w) => ({ id: w.request_id, state: "pending", ...w }) as Interaction);
      asked.push({ answer: () => resolve(list), fail: () => reject(new Error("down")) });
    }),
  } as unknown as Transport;
  client = new Client({ transport });
  client.start();
});

describe("more waits in a session than its frames list", () => {
  it("D1-30: a newcomer is fetched although another has ended, and nothing is fetched while nothing is missing", async () => {
    snapshot();
    await answer(0);
    expect(client.pending()).toHaveLength(500);
    waiting.push(next());
    frame();
    expect(asked).toHaveLength(2);
    await answer(1);
    expect(client.pending()).toHaveLength(501);
    frame(waiting[0]!);
    expect(asked, "nothing is missing").toHaveLength(2);
    const late = next();
    waiting.push(late);
    frame();
    expect(asked).toHaveLength(3);
    await answer(2);
    expect(client.pending().at(-1)?.summary.key).toBe(late.key);
    expect(client.pending()).toHaveLength(501);
    frame();
    expect(asked).toHaveLength(3);
  });

  it("one that comes and one that ends in the same frame", async () => {
    snapshot();
    await answer(0);
    const late = next();
    waiting.push(late);
    frame(waiting[3]!);
    expect(asked).toHaveLength(2);
    await answer(1);
    expect(client.item(late.key)).toBeDefined();
  });

  it("what comes while the list is on its way is asked for after it, with one list at a time", async () => {
    snapshot();
    const late = next();
    waiting.push(late);
    frame();
    frame();
    expect(asked).toHaveLength(1);
    await answer(0);
    expect(asked).toHaveLength(2);
    await answer(1);
    expect(client.item(late.key)).toBeDefined();
    expect(asked).toHaveLength(2);
  });

  it("B-18: is asked for anew after a reconnect with a snapshot, also where the numbers are the same", async () => {
    snapshot();
    await answer(0);
    const late = next();
    const gone = waiting[400]!;
    waiting = [...waiting.filter((w) => w !== gone), late];
    snapshot();
    expect(asked).toHaveLength(2);
    expect(client.pending()).toHaveLength(500);
    await answer(1);
    expect(client.item(late.key)?.closed).toBe(false);
    expect(client.item(gone.key)?.closed).toBe(true);
    expect(client.pending()).toHaveLength(500);
  });

  it("a list that failed is asked for again after a pause, whatever frames come", async () => {
    vi.useFakeTimers();
    try {
      snapshot();
      asked[0]!.fail();
      await vi.advanceTimersByTimeAsync(0);
      for (let i = 0; i < 50; i++) frame();
      expect(asked).toHaveLength(1);
      await vi.advanceTimersByTimeAsync(700);
      expect(asked).toHaveLength(2);
    } finally {
      vi.useRealTimers();
    }
  });

  it("beyond what a list holds it is asked for again only when more is missing, or much has ended", async () => {
    waiting = Array.from({ length: 1500 }, next);
    snapshot();
    await answer(0);
    expect(client.pending()).toHaveLength(1000);
    for (let i = 0; i < 199; i++) frame(waiting[0]!);
    expect(asked).toHaveLength(1);
    frame(waiting[0]!);
    expect(asked).toHaveLength(2);
    await answer(1);
    expect(client.pending()).toHaveLength(1000);
    waiting.push(next());
    frame();
    expect(asked).toHaveLength(3);
  });
});
