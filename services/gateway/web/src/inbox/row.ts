// What a row of the overview may decide: only what it shows whole, and only
// where little can go wrong. Everything else is looked at as a card first.
import type { Answer, Block, Item, Question, Summary } from "@banksman/client";

const SHORT = 160; // characters of a text that a row shows whole
const CHOICES = 240; // of a question with its options

export type RowOffer =
  | { may: "approve"; block: Block; notes: string[] }
  | { may: "answer"; question: Question }
  | { may: "look" };

const look: RowOffer = { may: "look" };

export function rowOffer(s: Summary): RowOffer {
  const body = s.body;
  if (!body || s.cut) return look;
  // What the agent adds in words is a reason to read it all.
  if (body.message || body.reason || (body.options ?? []).length > 0) return look;
  const verbs = body.verbs ?? [];
  if (s.kind === "approval") {
    if (s.risk !== "low" || !verbs.includes("allow") || !verbs.includes("deny")) return look;
    const blocks = body.blocks ?? [];
    const payload = blocks.filter((b) => b.form !== "text");
    const block = payload[0];
    if (payload.length !== 1 || !block || block.form === "diff" || !isShort(block)) return look;
    const words = blocks.filter((b) => b.form === "text");
    if (!words.every(isShort)) return look;
    return { may: "approve", block, notes: [body.cwd ?? "", ...words.map((b) => b.text ?? "")].filter((t) => t !== "") };
  }
  const q = body.questions?.[0];
  if (s.kind !== "question" || !q || body.questions?.length !== 1 || !verbs.includes("answer")) return look;
  const options = q.options ?? [];
  if (q.multi_select || options.length < 2 || options.length > 4 || options.some((o) => o.preview)) return look;
  const texts = [q.header ?? "", q.question, ...options.flatMap((o) => [o.label, o.description ?? ""])];
  return texts.join("").length <= CHOICES && texts.every(isPlain) ? { may: "answer", question: q } : look;
}

function isShort(b: Block): boolean {
  const text = b.text ?? "";
  // JSON stands on a few lines by itself; any other text of several is longer than it looks.
  const lines = b.form === "json" ? text.split("\n") : [text];
  return text !== "" && text.length <= SHORT && lines.length <= 5 && !b.hidden && !b.pushed && lines.every(isPlain);
}

/** The line that says most of a request that is yet to be looked at. */
export function peek(s: Summary): string {
  const blocks = s.body?.blocks ?? [];
  const block = blocks.find((b) => b.form === "command" || b.form === "path") ?? blocks.find((b) => b.form === "json");
  return (block?.text || s.tool_input || "").replace(/\s+/g, " ").trim();
}

/** One line without anything that is invisible. */
function isPlain(text: string): boolean {
  return !text.includes("\n") && !text.includes("⟦");
}

export function answerWith(q: Question, value: string): Answer[] {
  return [{ question_id: q.id, values: [value] }];
}

/** Whether it may be one of many that are decided together. Questions are answered one by one. */
export function selectable(item: Item | undefined): boolean {
  if (!item || item.closed || item.summary.kind !== "approval") return false;
  const verbs = item.summary.body?.verbs;
  return !verbs || verbs.includes("deny");
}
