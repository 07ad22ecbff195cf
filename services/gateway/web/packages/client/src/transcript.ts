// A session's conversation from its events. Asks stand where they were raised;
// whether one still waits is never read from here.
import type { Ack, AttachmentData, Decision, Event, EventData, Events } from "./wire.ts";
import type { Entry, Transcript } from "./state.ts";

export const emptyTranscript: Transcript = { entries: [], cursor: "", loading: true, generation: 0, next: 0 };

export function applyEvents(old: Transcript, f: Events): Transcript {
  const t: Transcript = f.reset
    ? { ...emptyTranscript, entries: [] }
    : { ...old, entries: old.entries.slice() };
  for (const e of f.events ?? []) {
    if (e === null || typeof e !== "object") continue;
    applyEvent(t, e);
    if (e.cursor) t.cursor = e.cursor;
  }
  if (f.cursor) t.cursor = f.cursor;
  t.loading = f.more === true;
  t.missing = false;
  return t;
}

function applyEvent(t: Transcript, e: Event): void {
  const d: EventData = e.data !== null && typeof e.data === "object" ? (e.data as EventData) : {};
  const at = e.at;
  switch (e.type) {
    case "text_delta": {
      const i = findLast(t, (x) => x.kind === "text" && x.live && x.id === block(d));
      const x = t.entries[i];
      if (x?.kind === "text") t.entries[i] = { ...x, text: x.text + str(d.text) };
      else t.entries.push({ kind: "text", id: block(d), role: "assistant", text: str(d.text), attachments: [], parent: str(d.parent_tool_call_id), live: true, at });
      return;
    }
    case "text": {
      const role: "user" | "assistant" = d.role === "user" ? "user" : "assistant";
      const i = d.block_id ? findLast(t, (x) => x.kind === "text" && x.id === block(d)) : -1;
      const whole = { kind: "text" as const, role, text: str(d.text), attachments: list<AttachmentData>(d.attachments), parent: str(d.parent_tool_call_id), live: false, at };
      if (i >= 0) t.entries[i] = { ...whole, id: block(d) };
      else t.entries.push({ ...whole, id: d.block_id ? block(d) : name(t) });
      return;
    }
    case "tool_call_start":
      if (openTool(t, d) < 0) t.entries.push(tool(t, d, at));
      return;
    case "tool_call_delta": {
      const i = openTool(t, d);
      const x = t.entries[i];
      if (x?.kind === "tool") t.entries[i] = { ...x, input: x.input + str(d.text) };
      return;
    }
    case "tool_call_end": {
      // The whole input wins over whatever was streamed.
      const i = openTool(t, d);
      const x = t.entries[i];
      if (x?.kind === "tool") t.entries[i] = { ...x, name: str(d.tool_name) || x.name, input: str(d.input), blocks: list(d.blocks), parent: str(d.parent_tool_call_id) || x.parent };
      else t.entries.push({ ...tool(t, d, at), input: str(d.input), blocks: list(d.blocks) });
      return;
    }
    case "tool_result": {
      const i = openTool(t, d);
      const x = t.entries[i];
      if (x?.kind === "tool") t.entries[i] = { ...x, result: str(d.content), failed: d.is_error === true, done: true };
      else t.entries.push({ ...tool(t, d, at), result: str(d.content), failed: d.is_error === true, done: true });
      return;
    }
    case "interaction_request":
    case "approval_required":
    case "question_prompt": {
      const request = str(d.interaction_id) || str(d.request_id);
      if (!request) return;
      const i = findLast(t, (x) => x.kind === "ask" && x.request === request);
      const x = t.entries[i];
      if (x?.kind === "ask") {
        t.entries[i] = { ...x, key: x.key || str(d.key), headline: x.headline || str(d.headline) };
        return;
      }
      t.entries.push({ kind: "ask", id: name(t), key: str(d.key), request, headline: str(d.headline), ended: false, trail: [], at });
      return;
    }
    case "interaction_response": {
      const i = findLast(t, (x) => x.kind === "ask" && x.request === str(d.interaction_id));
      const x = t.entries[i];
      if (x?.kind === "ask") t.entries[i] = { ...x, ended: true, decision: asDecision(d.decision) };
      return;
    }
    case "interaction_delivery": {
      const i = findLast(t, (x) => x.kind === "ask" && x.request === str(d.interaction_id));
      const x = t.entries[i];
      const ack: Ack = { v: 1, stage: str(d.stage), decision_id: "", at, detail: str(d.detail) || undefined };
      if (x?.kind === "ask" && !x.trail.some((a) => a.stage === ack.stage)) t.entries[i] = { ...x, trail: [...x.trail, ack] };
      return;
    }
    case "error":
      t.entries.push({ kind: "note", id: name(t), text: str(d.message) || "The agent reported an error.", bad: true, at });
      return;
    case "done":
      endTurn(t);
      if (str(d.reason) === "error" && lastIsBad(t)) return; // which was said already
      if (str(d.reason) && str(d.reason) !== "end_turn" && str(d.reason) !== "success") t.entries.push({ kind: "note", id: name(t), text: `Turn ended: ${str(d.reason)}`, bad: false, at });
      return;
    case "session_status":
      if (typeof d.generation === "number" && d.generation > t.generation) {
        // Whoever ran these calls is gone.
        if (t.generation > 0) endTurn(t);
        t.generation = d.generation;
      }
      if (str(d.note)) t.entries.push({ kind: "note", id: name(t), text: str(d.note), bad: false, at });
      if (d.state !== "dead") return;
      endTurn(t);
      t.entries.push({ kind: "note", id: name(t), text: "Session ended", bad: false, at });
      return;
    default: // interaction_pending too: pending is process_state's to say
      return;
  }
}

/** What a turn left open stays as it is; a result that comes all the same still finds its call. */
function endTurn(t: Transcript): void {
  t.entries = t.entries.map((x) => {
    if (x.kind === "text" && x.live) return { ...x, live: false };
    return x.kind === "tool" && !x.done ? { ...x, over: true } : x;
  });
}

function lastIsBad(t: Transcript): boolean {
  const last = t.entries.at(-1);
  return last?.kind === "note" && last.bad;
}

function tool(t: Transcript, d: EventData, at: string): Extract<Entry, { kind: "tool" }> {
  return { kind: "tool", id: name(t), call: str(d.tool_call_id), name: str(d.tool_name), input: "", blocks: [], parent: str(d.parent_tool_call_id), done: false, over: false, at };
}

function list<T>(v: unknown): T[] {
  return Array.isArray(v) ? (v as unknown[]).filter((x): x is T => x !== null && typeof x === "object") : [];
}

function openTool(t: Transcript, d: EventData): number {
  return findLast(t, (x) => x.kind === "tool" && x.call === str(d.tool_call_id) && !x.done);
}

function findLast(t: Transcript, want: (x: Entry) => boolean): number {
  for (let i = t.entries.length - 1; i >= 0; i--) if (want(t.entries[i]!)) return i;
  return -1;
}

function block(d: EventData): string {
  return `b:${str(d.block_id)}`;
}

function name(t: Transcript): string {
  return `e:${t.next++}`;
}

function asDecision(v: unknown): Decision | undefined {
  if (v === null || typeof v !== "object") return undefined;
  const d = v as Partial<Decision>;
  return typeof d.outcome === "string" && d.principal ? (v as Decision) : undefined;
}

/** Text stays text; anything else is shown as it can be, never dropped. */
export function str(v: unknown): string {
  if (typeof v === "string") return v;
  if (v === undefined || v === null) return "";
  return JSON.stringify(v, null, 2);
}
