// One suite over the three transports: whoever embeds the client may take
// whichever, and sees the same. WebSocket and HTTP+SSE run over real sockets.
import { afterEach, describe, expect, it, vi } from "vitest";
import WebSocket from "ws";
import { BusyError, Client, type ClientFrame, type ConnStatus, DirectTransport, GatewayError, HttpTransport, type InFrame, NoWordError, pendingKeys, type Principal, type Say, type Transport, UnknownInteractionError, WebSocketTransport } from "../src/index.ts";
import { ada, at, bash, MemoryGateway, me, system } from "../src/testing/index.ts";
import { serve, type Served } from "./server.ts";

interface World {
  memory: MemoryGateway;
  /** A client of the person with this token, already started. */
  client(token?: string): Client;
  /** Breaks all connections without a goodbye. */
  cut(): void;
  close(): Promise<void>;
}

const people = new Map<string, Principal>([["T-me", me], ["T-ada", ada], ["T-viewer", { kind: "viewer", id: "v" }]]);
const soon = () => 0; // back-off without its pause

function over(make: (token: string, served: Served) => Transport): () => Promise<World> {
  return async () => {
    const memory = new MemoryGateway();
    const served = await serve(memory, people);
    const clients: Client[] = [];
    return {
      memory,
      client(token = "T-me") {
        const c = new Client({ transport: make(token, served) });
        clients.push(c);
        c.start();
        return c;
      },
      cut: () => served.cut(),
      async close() {
        for (const c of clients) c.stop();
        await served.close();
      },
    };
  };
}

async function direct(): Promise<World> {
  const memory = new MemoryGateway();
  const clients: Client[] = [];
  return {
    memory,
    client(token = "T-me") {
      const person = people.get(token);
      const refuse = () => Promise.reject(new GatewayError(401, "unauthorized", "sign in again"));
      const host = person ? memory.host(person) : { ...memory.host(me), watch: refuse };
      const c = new Client({ transport: new DirectTransport(host, { random: soon }) });
      clients.push(c);
      c.start();
      return c;
    },
    cut: () => memory.cut(),
    close: async () => clients.forEach((c) => c.stop()),
  };
}

const worlds: Record<string, () => Promise<World>> = {
  websocket: over((token, s) => new WebSocketTransport({ gateway: s.url, token: () => token, random: soon, create: (url) => new WebSocket(url) as unknown as globalThis.WebSocket })),
  "http+sse": over((token, s) => new HttpTransport({ gateway: s.url, token: () => token, random: soon })),
  direct,
};

const S1 = "default.agents.s1";
const open: World[] = [];
async function world(make: () => Promise<World>): Promise<World> {
  const w = await make();
  open.push(w);
  return w;
}
afterEach(async () => {
  for (const w of open.splice(0)) await w.close();
});

/** Waits, by the client's own changes, until the state is so. */
function until(c: Client, what: (c: Client) => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const limit = setTimeout(() => reject(new Error("it never came")), 20_000);
    const look = () => {
      if (!what(c)) return;
      clearTimeout(limit);
      off();
      resolve();
    };
    const off = c.store.subscribe(look);
    look();
  });
}

const texts = (c: Client) => c.state.transcripts[S1]?.entries.map((e) => (e.kind === "text" ? e.text : e.kind));
const line = (text: string) => ({ type: "text", at: at(0), data: { role: "assistant", text } });

describe.each(Object.entries(worlds))("D0-30 over %s", (_name, make) => {
  it("invariant8: the snapshot in pages, then each change, with typed events", async () => {
    const w = await world(make);
    w.memory.ask(bash("a"));
    w.memory.ask(bash("b", "ls", { session_key: "default.agents.s2", session_id: "s2", key: "default.agents.b" }));
    const c = w.client();
    const seen: string[] = [];
    c.on("pending", (i) => seen.push(`+${i.summary.request_id}`));
    c.on("closed", (i) => seen.push(`-${i.summary.request_id} ${i.outcome}`));
    c.on("count", (n) => seen.push(`=${n}`));
    await c.ready();
    expect(pendingKeys(c.state)).toHaveLength(2);
    expect(c.state.principal).toEqual(me);
    w.memory.ask(bash("c", "ls", { created_at: at(9) }));
    await until(c, () => c.pending().length === 3);
    w.memory.end("default.agents.c", "denied", ada);
    await until(c, () => c.pending().length === 2);
    expect(seen.filter((x) => x.startsWith("=")).map((x) => Number(x.slice(1)))).toEqual([2, 3, 2]);
    expect(seen.filter((x) => !x.startsWith("="))).toEqual(["+a", "+b", "+c", "-c denied"]);
  });

  it("D1-41 B-04: a decision gets its receipt, the second person is told the winner, a repeat is a duplicate", async () => {
    const w = await world(make);
    const a = bash("a");
    w.memory.ask(a);
    const [mine, hers] = [w.client(), w.client("T-ada")];
    await Promise.all([mine.ready(), hers.ready()]);
    const first = await mine.decide(a.key, { decision: "deny", message: "not today" });
    expect(first).toMatchObject({ status: "accepted", request_id: a.key, decision: { outcome: "denied", message: "not today", principal: { id: me.id } } });
    const second = await hers.decide(a.key, { decision: "allow" });
    expect(second).toMatchObject({ status: "already_decided", decision: { outcome: "denied", principal: { id: me.id } } });
    await until(hers, () => hers.item(a.key)?.closed === true);
    expect(await hers.decide(a.key, { decision: "allow" })).toMatchObject({ status: "already_decided", decision: { principal: { id: me.id } } });
    const again = w.client();
    await again.load(a.key);
    expect(again.item(a.key)).toMatchObject({ closed: true, outcome: "denied" });
  });

  it.each([
    ["invalid", "T-me", { decision: "yes" }, "", "decision"],
    ["forbidden", "T-viewer", { decision: "allow" }, "", ""],
    ["digest_mismatch", "T-me", { decision: "allow" }, "other", ""],
  ] as const)("B-30: %s comes back as a receipt with its reason, and the request still waits", async (status, token, say, digest, field) => {
    const w = await world(make);
    const a = bash("a");
    w.memory.ask(a);
    const c = w.client(token);
    await c.ready();
    if (digest) c.dispatch({ kind: "interaction", interaction: { ...a, id: "a", state: "pending", digest } });
    const r = await c.decide(a.key, say as Say); // also what the types forbid
    expect(r.status).toBe(status);
    expect(r.error).not.toBe("");
    expect(r.fields?.map((f) => f.field) ?? []).toEqual(field ? [field] : []);
    expect(pendingKeys(c.state)).toEqual([a.key]);
  });

  it("what expired meanwhile says so, and what nobody knows is thrown", async () => {
    const w = await world(make);
    const a = bash("a");
    w.memory.ask(a);
    const c = w.client();
    await c.ready();
    let word!: () => void;
    w.memory.gate = new Promise((resolve) => (word = resolve));
    w.memory.end(a.key, "expired", system);
    const r = c.decide(a.key, { decision: "allow" });
    word();
    expect(await r).toMatchObject({ status: "expired", decision: { outcome: "expired" } });
    await expect(c.decide("default.agents.none", { decision: "allow" })).rejects.toBeInstanceOf(UnknownInteractionError);
  });

  it("B-18 invariant8: after a cut it goes on from its cursor and misses nothing", async () => {
    const w = await world(make);
    const a = bash("a");
    w.memory.ask(a);
    const c = w.client();
    const hellos: boolean[] = [];
    const pages: InFrame[] = [];
    c.on("frame", (f) => {
      if (f.type === "hello") hellos.push(f.recovered);
      if (f.type === "active_processes") pages.push(f);
    });
    await c.ready();
    const before = pages.length;
    const lost = new Promise<void>((resolve) => {
      const off = c.on("connection", (s) => {
        if (s.status !== "lost") return;
        off();
        // While nobody listens.
        w.memory.end(a.key, "allowed", ada);
        w.memory.ask(bash("b"));
        resolve();
      });
    });
    w.cut();
    await lost;
    await until(c, () => c.item("default.agents.b") !== undefined && c.item(a.key)!.closed);
    expect(hellos).toEqual([false, true]);
    expect(pages).toHaveLength(before);
    expect(c.item(a.key)?.outcome).toBe("allowed");
  });

  it("B-19: where the cursor is not good any more a snapshot comes, and what ended unseen is looked up", async () => {
    const w = await world(make);
    const a = bash("a");
    w.memory.ask(a);
    const c = w.client();
    await c.ready();
    const lost = new Promise<void>((resolve) => {
      const off = c.on("connection", (s) => {
        if (s.status !== "lost") return;
        off();
        w.memory.end(a.key, "denied", ada);
        w.memory.trim();
        resolve();
      });
    });
    w.cut();
    await lost;
    await until(c, () => c.item(a.key)?.outcome === "denied");
    expect(c.state.snapshot).toBe("ready");
    expect(c.pending()).toEqual([]);
  });

  it("a followed session: what is stored, then what happens, over a cut without loss or doubling", async () => {
    const w = await world(make);
    for (const t of ["1", "2", "3"]) w.memory.say(S1, [line(t)]);
    w.memory.say(S1, [line("4"), line("5")]);
    const c = w.client();
    const end = c.follow(S1);
    await until(c, () => texts(c)?.length === 5);
    w.memory.type(S1, "b", "si");
    await until(c, () => texts(c)?.length === 6);
    w.memory.say(S1, [{ type: "text", at: at(0), data: { role: "assistant", block_id: "b", text: "six" } }, line("7")]);
    await until(c, () => texts(c)?.length === 7);
    w.cut();
    w.memory.say(S1, [line("8"), line("9")]);
    await until(c, () => texts(c)?.length === 9);
    w.memory.say(S1, [line("10")]);
    await until(c, () => texts(c)!.length >= 10);
    expect(texts(c)).toEqual(["1", "2", "3", "4", "5", "six", "7", "8", "9", "10"]);
    expect(c.state.transcripts[S1]).toMatchObject({ loading: false });
    expect(c.state.transcripts[S1]?.entries[0]).toMatchObject({ at: at(0) });
    end();
    const order = () => c.command({ type: "interrupt", session_id: S1 }); // what was sent before it is through when its receipt is here
    await order();
    w.memory.say(S1, [line("11")]);
    await order();
    expect(texts(c)).toHaveLength(10);
  });

  it("a session that is followed before anybody knows it: its conversation comes once it is there", async () => {
    const w = await world(make);
    const c = w.client();
    await c.ready();
    const end = c.follow(S1);
    await until(c, () => c.state.transcripts[S1]?.missing === true);
    w.memory.ask(bash("first"));
    await until(c, () => c.state.transcripts[S1]?.entries.length === 1);
    expect(c.state.transcripts[S1]).toMatchObject({ loading: false, missing: false });
    end();
  });

  it("an answer whose receipt went with the connection is sent again with its ref, and counts once", async () => {
    const w = await world(make);
    const a = bash("a");
    w.memory.ask(a);
    const c = w.client();
    await c.ready();
    let word!: () => void;
    w.memory.gate = new Promise((resolve) => (word = resolve));
    const said = c.decide(a.key, { decision: "allow" });
    await vi.waitFor(() => expect(w.memory.heard).toHaveLength(1), 10_000);
    w.cut();
    await vi.waitFor(() => expect(w.memory.heard).toHaveLength(2), 10_000);
    word();
    expect((await said).status).toMatch(/accepted|duplicate/);
    expect(new Set(w.memory.heard).size).toBe(1);
    expect(c.item(a.key)).toMatchObject({ closed: true, outcome: "allowed", decision: { principal: { id: me.id } } });
  });

  it("B-31: no word within 5 s is NoWordError; the same again has the same ref; another answer has another", async () => {
    const w = await world(make);
    const [a, b] = [bash("a"), bash("b")];
    w.memory.ask(a);
    w.memory.ask(b);
    const c = w.client();
    await c.ready();
    w.memory.deaf = true;
    const [slow, other] = [c.decide(a.key, { decision: "allow" }), c.decide(b.key, { decision: "deny" })];
    await expect(c.decide(a.key, { decision: "deny" })).rejects.toBeInstanceOf(BusyError);
    await expect(slow).rejects.toBeInstanceOf(NoWordError);
    await expect(other).rejects.toBeInstanceOf(NoWordError);
    w.memory.deaf = false;
    expect(await c.decide(a.key, { decision: "allow" })).toMatchObject({ status: "accepted", decision: { outcome: "allowed" } });
    expect(await c.decide(b.key, { decision: "allow" })).toMatchObject({ status: "accepted", decision: { outcome: "allowed" } });
    const [a1, b1, a2, b2] = w.memory.heard;
    expect(a2).toBe(a1);
    expect(b2).not.toBe(b1);
  });

  it("commands get receipts with fields, and a session can be started", async () => {
    const w = await world(make);
    w.memory.say(S1, [line("hi")]);
    const c = w.client();
    await c.ready();
    expect(await c.command({ type: "send_message", session_id: S1 })).toMatchObject({ status: "invalid", fields: [{ field: "text" }] });
    expect(await c.command({ type: "send_message", session_id: "default.agents.none", text: "x" })).toMatchObject({ status: "not_found" });
    expect(await c.command({ type: "start_session", prompt: "go" })).toMatchObject({ status: "accepted", session_id: "default.agents.started" });
    for (const type of ["interrupt", "stop_session"] as const) expect(await c.command({ type, session_id: S1 })).toMatchObject({ status: "accepted" });
    expect(await c.command({ type: "set_mode", session_id: S1, mode: "plan" })).toMatchObject({ status: "accepted" });
    expect(await c.command({ type: "send_message", session_id: S1, text: "hello" })).toMatchObject({ status: "accepted" });
    expect(w.memory.carriedOut.map((f) => f.type)).toEqual(["start_session", "interrupt", "stop_session", "set_mode", "send_message"]);
    expect(w.memory.carriedOut.every((f) => (f as ClientFrame).command_id)).toBe(true);
  });

  it("what a person has before their eyes arrives with who it is, without a word back", async () => {
    const w = await world(make);
    const [a, b] = [bash("a"), bash("b")];
    w.memory.ask(a);
    w.memory.ask(b);
    const c = w.client("T-ada");
    const words: InFrame[] = [];
    c.on("receipt", (r) => words.push(r));
    await c.ready();
    expect(c.seen([a.key, b.key])).toBe(true);
    await vi.waitFor(() => expect(w.memory.looks).toEqual([[ada.id, a.key], [ada.id, b.key]]), 10_000);
    expect(words).toEqual([]);
    c.stop();
    expect(c.seen([a.key])).toBe(false);
  });

  it("the history, and one that is not there", async () => {
    const w = await world(make);
    const a = bash("a");
    w.memory.ask(a);
    w.memory.end(a.key, "denied", ada);
    const c = w.client();
    await c.ready();
    await c.loadHistory();
    expect(c.state.history).toEqual({ state: "ready", keys: [a.key] });
    await c.load("default.agents.none");
    expect(c.item("default.agents.none")).toBeUndefined();
  });

  it("a token that is not good signs out and stays away", async () => {
    const w = await world(make);
    const c = w.client("T-wrong");
    const heard: ConnStatus["status"][] = [];
    c.on("connection", (s) => heard.push(s.status));
    await until(c, () => c.state.conn.status === "signed_out");
    expect(heard).not.toContain("lost");
    await expect(c.command({ type: "interrupt", session_id: S1 })).rejects.toThrow("no connection");
  });

  it("signals end the waiting, not the answer", async () => {
    const w = await world(make);
    const a = bash("a");
    w.memory.ask(a);
    const c = w.client();
    await c.ready();
    let word!: () => void;
    w.memory.gate = new Promise((resolve) => (word = resolve));
    const stop = new AbortController();
    const said = c.decide(a.key, { decision: "allow" }, stop);
    stop.abort(new Error("the reader left"));
    await expect(said).rejects.toThrow("the reader left");
    word();
    await until(c, () => c.item(a.key)?.closed === true);
    expect(c.item(a.key)?.outcome).toBe("allowed");
    await expect(c.ready({ signal: stop.signal })).resolves.toBeUndefined();
    await expect(c.decide(a.key, { decision: "allow" }, stop)).rejects.toThrow("the reader left");
  });
});
