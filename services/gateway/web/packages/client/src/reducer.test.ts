import { describe, expect, it } from "vitest";
import type { InFrame, ServerFrame } from "./wire.ts";
import { ada, ask, at, bash, closed, decision, hello, me, processState, session, system, T0 } from "./testing/fixtures.ts";
import { reduce } from "./reducer.ts";
import { byDeadline, cardState, initialState, pendingCount, pendingKeys, pendingOf, type State } from "./state.ts";

const KEY = "default.agents.s1";

function run(frames: InFrame[], from: State = initialState): State {
  return frames.reduce((s, frame) => reduce(s, { kind: "frame", frame, now: T0 }), from);
}

function start(...pending: Parameters<typeof session>[0]): State {
  return run([hello(), { type: "active_processes", cursor: "c1", sessions: [session(pending)], more: false }]);
}

function sending(s: State, key: string, ref = "ref-1"): State {
  return reduce(s, { kind: "send", key, ref, frame: { type: "pending_request_response", ref, decision: "allow" } });
}

describe("reducer", () => {
  it("D1-30: snapshot and delta both set pending_request, null when nothing waits", () => {
    const a = bash("a");
    expect(pendingOf(start(), KEY)).toBeNull();
    expect(pendingOf(start(a), KEY)?.summary.key).toBe(a.key);
    const delta = run([processState([a])], start());
    expect(pendingOf(delta, KEY)?.summary.key).toBe(a.key);
    expect(pendingOf(run([processState([])], delta), KEY)).toBeNull();
  });

  it("D3-09: request and response events change nothing about what waits", () => {
    const a = bash("a");
    const s = reduce(start(a), { kind: "subscribe", session: KEY });
    const events = (type: string, data: unknown): InFrame => ({ type: "event", session_id: "s1", session_key: KEY, cursor: "e", events: [{ type, at: at(0), data }] });
    const after = run([
      events("interaction_pending", { interaction_id: "zz", pending: true }),
      events("interaction_request", { interaction_id: "zz", headline: "x" }),
      events("interaction_response", { interaction_id: "a", decision: decision(a, "allowed") }),
      events("interaction_pending", { interaction_id: "a", pending: false }),
    ], s);
    expect(pendingKeys(after)).toEqual([a.key]);
    expect(cardState(after, a.key)).toBe("pending");
  });

  it("says nothing about the inbox before the last page of the snapshot", () => {
    const s = run([hello(), { type: "active_processes", cursor: "c1", sessions: [session([bash("a")])], more: true }]);
    expect(s.snapshot).toBe("loading");
    expect(s.cursor).toBe("");
    const whole = run([{ type: "active_processes", cursor: "c2", sessions: [session([], { session_key: "x.y.z" })], more: false }], s);
    expect(whole.snapshot).toBe("ready");
    expect(whole.cursor).toBe("c2");
    expect(Object.keys(whole.sessions)).toHaveLength(2);
  });

  it("replay and live give the same state", () => {
    const a = bash("a");
    const b = bash("b");
    const live = run([processState([a]), processState([a, b]), processState([b], { closed: [closed(a, "denied", { principal: ada })] })], start());
    const replay = run([processState([b], { closed: [closed(a, "denied", { principal: ada })] })], start(a));
    expect(pendingKeys(live)).toEqual(pendingKeys(replay));
    expect(live.items[a.key]?.outcome).toBe(replay.items[a.key]?.outcome);
    expect(cardState(live, a.key)).toBe("decided");
  });

  it("B-31: the receipt alone settles a card whose broadcast was lost", () => {
    const a = bash("a");
    const s = run([{ type: "receipt", ref: "ref-1", status: "accepted", decision: decision(a, "allowed") }], sending(start(a), a.key));
    expect(cardState(s, a.key)).toBe("confirmed");
    expect(pendingCount(s)).toBe(0);
  });

  it("D1-41: the broadcast alone settles it too, in the tab that sent and in the other", () => {
    const a = bash("a");
    const done = processState([], { closed: [closed(a, "allowed")] });
    expect(cardState(run([done], sending(start(a), a.key)), a.key)).toBe("confirmed");
    expect(cardState(run([done], start(a)), a.key)).toBe("confirmed");
    expect(cardState(run([processState([], { closed: [closed(a, "allowed", { principal: ada })] })], start(a)), a.key)).toBe("decided");
  });

  it("losing the race names the winner's outcome", () => {
    const a = bash("a");
    const s = run([{ type: "receipt", ref: "ref-1", status: "already_decided", decision: decision(a, "denied", { principal: ada }) }], sending(start(a), a.key));
    expect(cardState(s, a.key)).toBe("lost");
    expect(s.items[a.key]?.outcome).toBe("denied");
  });

  it.each(["forbidden", "invalid", "digest_mismatch", "not_found"] as const)("who was refused (%s) did not lose a race to who decided later; whose answer may have landed did", (status) => {
    const a = bash("a");
    const later = processState([], { closed: [closed(a, "denied", { principal: ada })] });
    const refused = run([{ type: "receipt", ref: "ref-1", status }, later], sending(start(a), a.key));
    expect(cardState(refused, a.key)).toBe("decided");
    const unknown = run([{ type: "receipt", ref: "ref-1", status: "unavailable" }, later], sending(start(a), a.key));
    expect(cardState(unknown, a.key)).toBe("lost");
  });

  it("B-29: a decided interaction never opens again, whatever arrives late", () => {
    const a = bash("a");
    const s = run([{ type: "receipt", ref: "ref-1", status: "accepted", decision: decision(a, "allowed") }, processState([a])], sending(start(a), a.key));
    expect(pendingKeys(s)).toEqual([]);
    expect(cardState(s, a.key)).toBe("confirmed");
  });

  it("B-31: without a word the card opens again, and a late receipt still settles it", () => {
    const a = bash("a");
    const s = reduce(sending(start(a), a.key), { kind: "unsure", ref: "ref-1" });
    expect(cardState(s, a.key)).toBe("unsure");
    expect(cardState(run([{ type: "receipt", ref: "ref-1", status: "duplicate", decision: decision(a, "allowed") }], s), a.key)).toBe("confirmed");
  });

  it("B-30: a refusal brings the card back with its reason", () => {
    const a = bash("a");
    const s = run([{ type: "receipt", ref: "ref-1", status: "forbidden", error: "viewers may not decide" }], sending(start(a), a.key));
    expect(cardState(s, a.key)).toBe("refused");
    expect(s.sends[a.key]?.error).toBe("viewers may not decide");
    expect(pendingKeys(s)).toEqual([a.key]);
  });

  it("a receipt about an older try does not undo the present one", () => {
    const a = bash("a");
    let s = reduce(sending(start(a), a.key), { kind: "unsure", ref: "ref-1" });
    s = sending(s, a.key, "ref-2");
    expect(cardState(run([{ type: "receipt", ref: "ref-1", status: "unavailable" }], s), a.key)).toBe("sending");
  });

  it("B-55: a digest mismatch drops what was shown, so that it is fetched anew", () => {
    const a = bash("a");
    const s = run([{ type: "receipt", ref: "ref-1", status: "digest_mismatch" }], sending(start(a), a.key));
    expect(s.items[a.key]?.summary.body).toBeUndefined();
    expect(cardState(s, a.key)).toBe("refused");
  });

  it.each([
    ["expired", "expired"],
    ["cancelled", "withdrawn"],
    ["orphaned", "orphaned"],
    ["invalid", "invalid"],
  ] as const)("B-32: %s stays itself and is nobody's no", (outcome, word) => {
    const a = bash("a");
    const s = run([processState([], { closed: [closed(a, outcome, { principal: system })] })], start(a));
    expect(cardState(s, a.key)).toBe(word);
  });

  it("B-18: after a reconnect with a snapshot the same card stands once; what ended meanwhile is closed", () => {
    const a = bash("a");
    const b = bash("b");
    const s = run([hello({ recovered: false }), { type: "active_processes", cursor: "c9", sessions: [session([b])], more: false }], start(a, b));
    expect(pendingKeys(s)).toEqual([b.key]);
    expect(cardState(s, a.key)).toBe("gone");
  });

  it("B-19: an unrecovered hello forgets the cursor until the snapshot is whole", () => {
    const s = run([hello({ recovered: false })], { ...start(bash("a")), cursor: "old" });
    expect(s.cursor).toBe("");
    expect(run([hello({ recovered: true })], { ...start(), cursor: "old" }).cursor).toBe("old");
  });

  it("B-43: five at once in one session are five cards, closed in any order", () => {
    const all = ["a", "b", "c", "d", "e"].map((id, i) => bash(id, `echo ${id}`, { created_at: at(i) }));
    let s = start(...all);
    expect(pendingKeys(s)).toEqual(all.map((x) => x.key));
    s = run([processState([all[0]!, all[1]!, all[3]!, all[4]!], { closed: [closed(all[2]!, "allowed")] })], s);
    expect(pendingKeys(s)).toHaveLength(4);
    expect(pendingOf(s, KEY)?.summary.key).toBe(all[0]!.key);
  });

  it("B-38: what waits is derived from live requests only", () => {
    const a = bash("a");
    const s = run([processState([], { closed: [closed(a, "orphaned", { principal: system })], state: "dead" })], start(a));
    expect(pendingCount(s)).toBe(0);
    expect(pendingOf(s, KEY)).toBeNull();
  });

  it("B-22: order by deadline puts what has none last", () => {
    const early = bash("a", "x", { expires_at: at(10) });
    const late = bash("b", "x", { expires_at: at(900) });
    const never = bash("c", "x", { expires_at: undefined });
    expect([never, late, early].sort(byDeadline).map((x) => x.request_id)).toEqual(["a", "b", "c"]);
  });

  it("B-20: the clock offset comes from the server's time", () => {
    expect(run([hello({ server_time: at(300) })]).offset).toBe(300_000);
  });

  it("B-20: a ping that was held up moves no countdown, a clock that was set does", () => {
    const ping = (n: number): ServerFrame => ({ type: "ping", server_time: at(n) });
    const late = run([hello({ server_time: at(300) }), ping(280)]);
    expect(late.offset).toBe(300_000);
    expect(run([ping(300)], late).offset).toBe(300_000);
    expect(run([ping(280)], late).offset, "twice the same: it is so").toBe(280_000);
  });

  it("B-79: delivery frames add the trail, each stage once", () => {
    const a = bash("a");
    const s = run([processState([], { closed: [closed(a, "allowed")] })], start(a));
    const ack = (stage: string): ServerFrame => ({ type: "delivery", cursor: "d", request_id: "a", key: a.key, session_key: KEY, v: 1, stage, decision_id: "d", at: at(9) });
    expect(run([ack("delivered"), ack("delivered"), ack("applied")], s).items[a.key]?.trail.map((t) => t.stage)).toEqual(["delivered", "applied"]);
    expect(run([ack("refused"), ack("delivered")], s).items[a.key]?.trail.map((t) => t.stage), "whichever is heard of first").toEqual(["delivered", "refused"]);
  });

  it("an equal id under another owner is another thing", () => {
    const a = bash("same");
    const b = bash("same", "x", { key: "default.cli.same", owner: "cli", session_key: "default.cli.s1" });
    const s = run([hello(), { type: "active_processes", cursor: "c", sessions: [session([a]), session([b], { session_key: "default.cli.s1", owner: "cli" })], more: false }]);
    expect(pendingCount(s)).toBe(2);
  });

  it("counts what a frame was too small to list, and keeps what was fetched", () => {
    const a = bash("a");
    const b = bash("b");
    let s = run([hello(), { type: "active_processes", cursor: "c", sessions: [session([a], { pending_count: 2 })], more: false }]);
    expect(pendingCount(s)).toBe(2);
    s = reduce(s, { kind: "extra", interactions: [{ id: "b", ...b, state: "pending" }], whole: true, asked: [] });
    expect(pendingKeys(s)).toHaveLength(2);
    expect(pendingCount(s)).toBe(2);
    s = run([processState([a], { pending_count: 1, closed: [closed(b, "allowed")] })], s);
    expect(pendingKeys(s)).toEqual([a.key]);
  });

  describe("a session in which more waits than a frame holds", () => {
    const all = Array.from({ length: 201 }, (_, i) => bash(`n${i}`, "ls", { created_at: at(i) }));
    const frame = all.slice(0, 200);
    const cut = (waiting = frame, total = all.length): InFrame => ({ type: "active_processes", cursor: "c", sessions: [session(waiting, { pending_count: total })], more: false });
    const list = (waiting: typeof all, whole = true, asked = all.map((x) => x.key)) => ({ kind: "extra" as const, interactions: waiting.map((x) => ({ id: x.request_id, ...x, state: "pending" as const })), whole, asked });
    const known = reduce(run([hello(), cut()]), list(all));

    it("B-18: after a reconnect with a snapshot what it has no room for waits still", () => {
      const s = run([hello({ recovered: false }), cut()], known);
      expect(pendingKeys(s)).toHaveLength(201);
      expect(pendingCount(s)).toBe(201);
      expect(cardState(s, all[200]!.key)).toBe("pending");
    });

    it("B-18: what ended meanwhile beyond the frame is closed by the list, and what came after the list was asked for is not", () => {
      const more = bash("new", "ls", { created_at: at(900) });
      let s = run([hello({ recovered: false }), cut([...frame.slice(0, 199), more], 201)], known);
      expect(pendingCount(s), "as the server counts").toBe(201);
      s = reduce(s, list(all.slice(0, 200)));
      expect(pendingCount(s)).toBe(201);
      expect(cardState(s, all[200]!.key)).toBe("gone");
      expect(cardState(s, more.key)).toBe("pending");
    });

    it("a list that is not whole says nothing of what is newer than its last", () => {
      const s = reduce(known, list(all.slice(1, 100), false));
      expect(cardState(s, all[0]!.key)).toBe("gone");
      expect(cardState(s, all[200]!.key)).toBe("pending");
    });

    it("an end that was only read from an absence is taken back where the server says that it waits", () => {
      const s = reduce(known, list(all.slice(0, 200)));
      expect(cardState(s, all[200]!.key)).toBe("gone");
      const again = reduce(s, { kind: "interaction", interaction: { id: "n200", ...all[200]!, state: "pending" } });
      expect(pendingKeys(again)).toHaveLength(201);
    });

    it("only what is newer than all that was known is a new request", () => {
      const s = run([hello(), cut([...frame.slice(0, 100), all[200]!], 201)]);
      const n = s.spoken.at(-1)!.n;
      const slid = run([processState([...frame.slice(1, 102), all[200]!], { pending_count: 200, closed: [closed(frame[0]!, "allowed")] })], s);
      expect(slid.spoken.at(-1)).toEqual({ n: n + 1, text: `${frame[0]!.headline}: approved.` });
      const came = run([processState([...frame.slice(1, 102), bash("late", "ls", { created_at: at(901), headline: "late" })], { pending_count: 201 })], slid);
      expect(came.spoken.at(-1)!.text).toBe("New request: late.");
    });
  });

  it("B-18: what a frame that came again lacks, and the next one lists, waits still", () => {
    const a = bash("a");
    const b = bash("b");
    const s = run([processState([a]), processState([a, b]), hello({ recovered: true }), processState([a]), processState([a, b])], start());
    expect(pendingKeys(s)).toEqual([a.key, b.key]);
    expect(pendingCount(s)).toBe(2);
  });

  it("what the server says waits and its session says not is not asked for without end, and stays closed", () => {
    const a = bash("a");
    const gone = run([processState([])], start(a));
    const s = reduce(reduce(gone, { kind: "load", key: a.key, state: "loading" }), { kind: "interaction", interaction: { id: "a", ...a, state: "pending" } });
    expect(cardState(s, a.key)).toBe("gone");
    expect(s.items[a.key]?.load).toBe("failed");
    expect(run([hello({ recovered: true })], s).items[a.key]?.load, "the next connection tries again").toBe("idle");
  });

  it("a newer server's frame changes nothing and breaks nothing", () => {
    const s = start(ask("q"));
    expect(run([{ type: "weather", sunny: true } as unknown as InFrame], s)).toBe(s);
  });

  it("a receipt for a principal of the same name but another id is not mine", () => {
    const a = bash("a");
    const s = run([processState([], { closed: [closed(a, "allowed", { principal: { ...me, id: "other" } })] })], start(a));
    expect(cardState(s, a.key)).toBe("decided");
  });
});
