import { beforeEach, describe, expect, it } from "vitest";
import { Client } from "./client.ts";
import { at, bash, closed, hello, processState, session } from "./testing/fixtures.ts";
import type { Handlers, Transport } from "./transport.ts";
import type { InFrame } from "./wire.ts";

let handlers: Handlers;
let client: Client;

beforeEach(() => {
  const transport = {
    open: (h: Handlers) => { handlers = h; },
    send: () => true,
    close: () => undefined,
    resume: () => undefined,
    interaction: () => new Promise(() => undefined),
    interactions: () => new Promise(() => undefined),
  } as unknown as Transport;
  client = new Client({ transport });
  client.start();
  handlers.onFrames([hello(), { type: "active_processes", cursor: "c", sessions: [session([])], more: false }]);
});

const size = (o: object) => Object.keys(o).length;

describe("a page that is open for days", () => {
  it("keeps the newest of 20,000 that ended, what is looked at and what has unsent words", () => {
    const ask = (i: number) => bash(`n${i}`, "ls", { created_at: at(i) });
    const end = (i: number): InFrame => {
      const s = ask(i);
      return processState([], { closed: [closed(s, "allowed", { decided_at: at(i) })] });
    };
    const looked = ask(1).key;
    const words = ask(2).key;
    const release = client.hold(looked);
    const second = client.hold(looked);
    client.drafts.save(words, { reason: "not yet, because" });
    for (let i = 0; i < 20_000; i += 100) {
      handlers.onFrames([processState([ask(i)])]);
      client.dispatch({ kind: "send", key: ask(i).key, ref: `ref-${i}`, frame: { type: "pending_request_response", ref: `ref-${i}` } });
      handlers.onFrames(Array.from({ length: 100 }, (_, n) => end(i + n)));
    }
    const s = client.state;
    expect(size(s.items)).toBeLessThanOrEqual(610);
    expect(size(s.sends)).toBeLessThanOrEqual(10);
    expect(size(s.refs)).toBeLessThanOrEqual(10);
    expect(s.history.keys.length).toBeLessThanOrEqual(610);
    expect(s.history.keys[0]).toBe(ask(19_999).key);
    for (let i = 19_700; i < 20_000; i++) expect(client.item(ask(i).key)?.outcome).toBe("allowed");
    expect(client.item(looked)?.closed).toBe(true);
    expect(client.item(words)?.closed).toBe(true);
    expect(client.item(ask(3).key)).toBeUndefined();

    // What is put away goes with the next ones.
    const many = (from: number) => handlers.onFrames(Array.from({ length: 400 }, (_, n) => end(from + n)));
    release();
    release();
    many(20_000);
    expect(client.item(looked), "somebody else looks at it").toBeDefined();
    second();
    client.drafts.drop(words);
    many(20_400);
    expect(client.item(looked)).toBeUndefined();
    expect(client.item(words)).toBeUndefined();
  });

  it("what waits is never forgotten, however much ends meanwhile", () => {
    const waits = bash("waits", "ls", { created_at: at(-1000) });
    for (let i = 0; i < 10; i++) {
      handlers.onFrames(Array.from({ length: 100 }, (_, n) => processState([waits], { closed: [closed(bash(`n${i}.${n}`), "denied")] })));
    }
    expect(client.pending().map((i) => i.summary.key)).toEqual([waits.key]);
  });

  it("ended sessions are as many as a gateway keeps, and those that go on or are followed are all there", () => {
    const name = (i: number) => `default.agents.over${i}`;
    client.follow(name(0));
    const over = Array.from({ length: 3000 }, (_, i) => session([], { session_key: name(i), state: i % 2 ? "dead" : "assistant_turn", runtime: i % 2 ? "claude" : "program", state_changed_at: at(i) }));
    handlers.onFrames([{ type: "active_processes", cursor: "c", sessions: [session([]), ...over], more: false }]);
    expect(size(client.state.sessions)).toBeLessThanOrEqual(2202);
    expect(client.state.sessions["default.agents.s1"], "it goes on").toBeDefined();
    expect(client.state.sessions[name(0)], "it is followed").toBeDefined();
    expect(client.state.sessions[name(1)]).toBeUndefined();
    expect(client.state.sessions[name(2999)]).toBeDefined();
  });

  it("transcripts that were left are the last few, and one that is taken up again stays", () => {
    const name = (i: number) => `default.agents.t${i}`;
    const ends = Array.from({ length: 3 }, (_, i) => client.follow(name(i)));
    for (const end of ends) end();
    const again = client.follow(name(0));
    for (let i = 3; i < 30; i++) client.follow(name(i))();
    expect(Object.keys(client.state.transcripts).sort()).toEqual([name(0), ...[25, 26, 27, 28, 29].map(name)].sort());
    again();
  });
});
