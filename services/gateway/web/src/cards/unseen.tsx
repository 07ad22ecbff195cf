// Texts whose order or content the eye would miss. What an agent wrote comes from
// the server with its marks; this is for what people paste, and for how it is drawn.
import { EyeOff } from "lucide-react";
import { Notice } from "../ui/controls";
import { Verbatim } from "./blocks";

// Controls but line feed and tab, marks of direction, what has no width, and every
// blank but U+0020. The form of an emoji belongs to the one before it.
const UNSEEN = /(?!(?<=\p{S})\ufe0f)(?:[^\P{C}\n\t]|[^\P{Z} ]|\p{DI}|\u2800)/gu;

/** Which characters of a text cannot be seen, each in its own turn. */
export function unseen(text: string): string[] {
  return Array.from(text.matchAll(UNSEEN), (m) => `U+${m[0].codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`);
}

/** A text of ours with a mark in the place of each. */
export function marked(text: string): string {
  return text.replaceAll(UNSEEN, (c) => `⟦U+${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟧`);
}

const NAMED = 6; // codes that are told

/** Says what cannot be seen of a text that is being written. */
export function Unseen({ text }: { text: string }) {
  const found = unseen(text);
  if (found.length === 0) return null;
  const codes = [...new Set(found)];
  return (
    <Notice tone="strong" icon={<EyeOff size={16} />}>
      <strong>{found.length === 1 ? "1 invisible character" : `${found.length} invisible characters`}</strong> in your text: {codes.slice(0, NAMED).join(", ")}{codes.length > NAMED ? " and others" : ""}. They are sent as they are.
    </Notice>
  );
}

// Letters that are written from right to left, each run of them.
const TURNED = /([\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]+)/u;

/** What is run, in the order in which it is run: such letters do not turn the signs beside them around. */
export function Ordered({ text }: { text: string }) {
  const parts = text.split(TURNED);
  if (parts.length === 1) return <Verbatim text={text} />;
  return <>{parts.map((p, i) => (i % 2 === 1 ? <bdi key={i}>{p}</bdi> : <Verbatim key={i} text={p} />))}</>;
}
