// Server-sent events from a fetch body: unlike EventSource it sends a token in
// a header and shows how a request failed.

export interface SseEvent {
  id: string; // empty where the event has none
  event: string;
  data: string;
  at: string; // our gateway's own field: when it happened
}

export type SseItem = SseEvent | { comment: string };

/** Reads until the stream ends; each call of onItems has what came in one piece. */
export async function readSse(body: ReadableStream<Uint8Array>, onItems: (items: SseItem[]) => void): Promise<void> {
  const reader = body.getReader();
  const text = new TextDecoder();
  const parser = new SseParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onItems(parser.push(text.decode(value, { stream: true })));
  }
}

export class SseParser {
  private rest = "";
  private lines: string[] = [];

  push(chunk: string): SseItem[] {
    const items: SseItem[] = [];
    const text = this.rest + chunk;
    let from = 0;
    for (let nl = text.indexOf("\n", from); nl >= 0; nl = text.indexOf("\n", from)) {
      const line = text.slice(from, text[nl - 1] === "\r" ? nl - 1 : nl);
      from = nl + 1;
      if (line !== "") {
        if (line.startsWith(":")) items.push({ comment: line.slice(1).trim() });
        else this.lines.push(line);
        continue;
      }
      const e = event(this.lines);
      this.lines = [];
      if (e) items.push(e);
    }
    this.rest = text.slice(from);
    return items;
  }
}

function event(lines: string[]): SseEvent | undefined {
  const e: SseEvent = { id: "", event: "message", data: "", at: "" };
  let data: string | undefined;
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (name === "data") data = data === undefined ? value : `${data}\n${value}`;
    else if (name === "id") e.id = value;
    else if (name === "event") e.event = value;
    else if (name === "at") e.at = value;
  }
  if (data === undefined) return undefined;
  e.data = data;
  return e;
}
