import { describe, expect, it } from "vitest";
import type { Event, Events } from "./wire.ts";
import { at, bash, decision } from "./testing/fixtures.ts";
import { applyEvents, emptyTranscript } from "./transcript.ts";

const ev = (type: string, data: unknown, cursor?: string): Event => ({ type, at: at(0), data, ...(cursor ? { cursor } : {}) });
const frame = (events: Event[], over: Partial<Events> = {}): Events => ({ type: "event", session_id: "s1", session_key: "k", cursor: "c", events, ...over });

describe("transcript", () => {
  it("deltas become the whole block, live and on replay alike", () => {
    const live = applyEvents(applyEvents(emptyTranscript, frame([ev("text_delta", { block_id: "b1", text: "Hel" })])), frame([ev("text_delta", { block_id: "b1", text: "lo" }), ev("text", { role: "assistant", block_id: "b1", text: "Hello" })]));
    const replay = applyEvents(emptyTranscript, frame([ev("text", { role: "assistant", block_id: "b1", text: "Hello" })]));
    expect(live.entries).toEqual(replay.entries);
  });

  it("D4-16: the whole input wins over what was streamed", () => {
    const t = applyEvents(emptyTranscript, frame([
      ev("tool_call_start", { tool_call_id: "t", tool_name: "Bash" }),
      ev("tool_call_delta", { tool_call_id: "t", text: '{"command":"rm' }),
      ev("tool_call_end", { tool_call_id: "t", tool_name: "Bash", input: '{"command":"ls"}' }),
      ev("tool_result", { tool_call_id: "t", content: "a b", is_error: true }),
    ]));
    expect(t.entries).toHaveLength(1);
    expect(t.entries[0]).toMatchObject({ kind: "tool", name: "Bash", input: '{"command":"ls"}', result: "a b", failed: true, done: true });
  });

  it("a tool call id that comes again in a later turn is another call", () => {
    const call = (n: string) => [ev("tool_call_end", { tool_call_id: "t", tool_name: "Bash", input: n }), ev("tool_result", { tool_call_id: "t", content: n })];
    expect(applyEvents(emptyTranscript, frame([...call("1"), ...call("2")])).entries).toHaveLength(2);
  });

  it("an ask stands once in its place and gets its decision and trail", () => {
    const t = applyEvents(emptyTranscript, frame([
      ev("interaction_pending", { interaction_id: "a", pending: true }),
      ev("interaction_request", { interaction_id: "a", headline: "h", key: "k.a" }),
      ev("approval_required", { interaction_id: "a", tool_name: "Bash", input: "ls" }),
      ev("interaction_response", { interaction_id: "a", decision: decision(bash("a"), "denied") }),
      ev("interaction_delivery", { interaction_id: "a", stage: "delivered" }),
    ]));
    expect(t.entries).toHaveLength(1);
    expect(t.entries[0]).toMatchObject({ kind: "ask", key: "k.a", ended: true, decision: { outcome: "denied" }, trail: [{ stage: "delivered" }] });
  });

  it("reset starts anew; more means that it still loads; the cursor is the last one", () => {
    const first = applyEvents(emptyTranscript, frame([ev("text", { role: "user", text: "old" })], { cursor: "c1", more: true }));
    expect(first.loading).toBe(true);
    const again = applyEvents(first, frame([ev("text", { role: "user", text: "new" }, "c2")], { reset: true, cursor: "c3" }));
    expect(again.entries).toHaveLength(1);
    expect(again.cursor).toBe("c3");
    expect(again.loading).toBe(false);
  });

  it("D1-46: what was sent along stays in the conversation, by name and kind", () => {
    const t = applyEvents(emptyTranscript, frame([ev("text", { role: "user", text: "look", attachments: [{ kind: "image", media_type: "image/png", name: "a.png" }, null] })]));
    expect(t.entries).toMatchObject([{ kind: "text", role: "user", attachments: [{ kind: "image", name: "a.png" }] }]);
  });

  it("keeps what a call shows, and whose sub-agent's step it is", () => {
    const t = applyEvents(emptyTranscript, frame([
      ev("tool_call_start", { tool_call_id: "t", tool_name: "Bash", parent_tool_call_id: "p" }),
      ev("tool_call_end", { tool_call_id: "t", tool_name: "Bash", input: "{}", blocks: [{ label: "Command", form: "command", text: "ls" }] }),
      ev("text", { role: "assistant", text: "deep", parent_tool_call_id: "p" }),
    ]));
    expect(t.entries).toMatchObject([{ kind: "tool", parent: "p", blocks: [{ text: "ls" }] }, { kind: "text", parent: "p" }]);
  });

  it.each([
    ["the turn ends", ev("done", { reason: "interrupted" })],
    ["the session dies", ev("session_status", { state: "dead" })],
    ["another worker takes the session up", ev("session_status", { state: "assistant_turn", generation: 2 })],
  ])("B-74: a call without a result does not run for ever: %s", (_name, end) => {
    const first = applyEvents(emptyTranscript, frame([ev("session_status", { state: "assistant_turn", generation: 1 }), ev("tool_call_end", { tool_call_id: "t", tool_name: "Bash", input: "{}" })]));
    expect(first.entries[0]).toMatchObject({ done: false, over: false });
    const t = applyEvents(first, frame([end]));
    expect(t.entries[0]).toMatchObject({ done: false, over: true });
    // A sub-agent in the background may outlive the turn.
    expect(applyEvents(t, frame([ev("tool_result", { tool_call_id: "t", content: "late" })])).entries[0]).toMatchObject({ done: true, result: "late" });
  });

  it("a turn that ended by an error that was told is not told again", () => {
    const t = applyEvents(emptyTranscript, frame([ev("error", { message: "no CLI" }), ev("done", { reason: "error" })]));
    expect(t.entries).toMatchObject([{ kind: "note", text: "no CLI", bad: true }]);
    expect(applyEvents(emptyTranscript, frame([ev("done", { reason: "error" })])).entries).toMatchObject([{ text: "Turn ended: error" }]);
  });

  it("a note of the worker is a step", () => {
    expect(applyEvents(emptyTranscript, frame([ev("session_status", { note: "taken up again" })])).entries).toMatchObject([{ kind: "note", text: "taken up again", bad: false }]);
  });

  it("malformed events cost nothing", () => {
    const t = applyEvents(emptyTranscript, frame([ev("text", null), ev("tool_result", 7), ev("interaction_request", []), ev("nonsense", {}), null as unknown as Event]));
    expect(t.entries.length).toBeGreaterThan(0);
  });
});
