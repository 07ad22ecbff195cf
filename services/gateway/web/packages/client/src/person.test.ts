import { beforeEach, describe, expect, it } from "vitest";
import { Client } from "./client.ts";
import { NoWordError } from "./errors.ts";
import { ada, bash, hello, processState, session } from "./testing/fixtures.ts";
import type { Handlers, Transport } from "./transport.ts";
import type { ClientFrame, InFrame, Interaction } from "./wire.ts";

const KEY = "default.agents.s1";

let sent: ClientFrame[];
let handlers: Handlers;
let client: Client;
let resumed: (boolean | undefined)[];
let fetched: { key: string; done: (i: Interaction) => void }[];

const snapshot = (...pending: Parameters<typeof session>[0]): InFrame => ({ type: "active_processes", cursor: "c1", sessions: [session(pending)], more: false });
const whole = (a: ReturnType<typeof bash>): Interaction => ({ ...a, id: a.request_id, state: "pending" }) as unknown as Interaction;

beforeEach(() => {
  sent = [];
  resumed = [];
  fetched = [];
  const transport: Transport = {
    open: (h: Handlers) => { handlers = h; },
    send: (f: ClientFrame) => sent.push(f) > 0,
    close: () => undefined,
    resume: (anew) => { resumed.push(anew); },
    interaction: (key) => new Promise((done) => fetched.push({ key, done })),
    interactions: () => new Promise(() => undefined),
  };
  client = new Client({ transport });
  client.start();
  handlers.onStatus({ status: "online" });
});

describe("another person on the same client", () => {
  it("is told nothing that the one before was told", () => {
    const a = bash("a");
    handlers.onFrames([hello(), snapshot(a)]);
    client.follow(KEY);
    handlers.onFrames([{ type: "event", session_id: "s1", session_key: KEY, cursor: "e", events: [{ type: "text", at: a.created_at, data: { role: "assistant", text: "the password is hunter2" } }] }]);
    expect(client.state.transcripts[KEY]?.entries).toHaveLength(1);
    handlers.onFrames([hello({ principal: ada })]);
    expect(client.state.principal).toEqual(ada);
    expect(client.state.snapshot).toBe("loading");
    for (const part of ["items", "sessions", "sends", "refs"] as const) expect(client.state[part]).toEqual({});
    expect(client.state.transcripts[KEY]?.entries).toEqual([]);
    expect(JSON.stringify(client.state)).not.toMatch(/hunter2|echo/);
    // What the screen follows is asked for in the new name, from its beginning.
    expect(sent.filter((f) => f.type === "subscribe").map((f) => f.from)).toEqual([undefined, undefined]);
  });

  it("sends no answer and no command of the one before again", async () => {
    const a = bash("a");
    handlers.onFrames([hello(), snapshot(a)]);
    const answer = client.decide(a.key, { decision: "allow" });
    const command = client.command({ type: "interrupt", session_id: KEY });
    const both = Promise.allSettled([answer, command]);
    expect(sent).toHaveLength(2);
    handlers.onFrames([hello({ principal: ada }), snapshot(a)]);
    expect(sent).toHaveLength(2);
    for (const r of await both) expect(r.status === "rejected" && r.reason instanceof NoWordError).toBe(true);
    // The same person's reconnect does send it again.
    void client.decide(a.key, { decision: "deny" }).catch(() => undefined);
    handlers.onFrames([hello({ principal: ada, recovered: true })]);
    expect(sent.slice(2).map((f) => f.decision)).toEqual(["deny", "deny"]);
  });

  it("does not take up where the one before stopped", () => {
    const a = bash("a");
    handlers.onFrames([hello(), snapshot(a)]);
    expect(client.state.cursor).toBe("c1");
    handlers.onFrames([hello({ principal: ada, recovered: true }), processState([bash("b")])]);
    expect(resumed).toEqual([true]);
    expect(client.state.cursor).toBe("");
    expect(client.state.sessions).toEqual({});
    handlers.onFrames([hello({ principal: ada }), snapshot(bash("b"))]);
    expect(client.pending().map((i) => i.summary.request_id)).toEqual(["b"]);
    expect(resumed).toEqual([true]);
  });

  it("gets nothing that was asked for in the other's name and comes later", async () => {
    const a = bash("a");
    handlers.onFrames([hello(), snapshot(a)]);
    void client.load(a.key);
    const found = client.find("default.agents.zz");
    handlers.onFrames([hello({ principal: ada }), snapshot()]);
    for (const f of fetched) f.done(whole(a));
    expect(await found).toBeUndefined();
    expect(client.state.items).toEqual({});
  });

  it("is not who only has another name", () => {
    const a = bash("a");
    handlers.onFrames([hello(), snapshot(a), hello({ principal: { ...hello().principal, name: "Renamed" } })]);
    expect(Object.keys(client.state.items)).toEqual([a.key]);
  });
});
