import { describe, expect, it } from "vitest";
import { SseParser } from "./sse.ts";

const text = 'id: c1\nevent: text\nat: 2026-01-01T00:00:00Z\ndata: {"a":1}\n\n: live\n\ndata: x\r\ndata: y\r\n\r\nevent: none\n\n:beat\n\n';
const want = [
  { id: "c1", event: "text", at: "2026-01-01T00:00:00Z", data: '{"a":1}' },
  { comment: "live" },
  { id: "", event: "message", at: "", data: "x\ny" },
  { comment: "beat" },
];

describe("server-sent events", () => {
  it("are read whole", () => {
    expect(new SseParser().push(text)).toEqual(want);
  });

  it("are read the same however they are cut", () => {
    for (let size = 1; size < 20; size++) {
      const p = new SseParser();
      const got = [];
      for (let i = 0; i < text.length; i += size) got.push(...p.push(text.slice(i, i + size)));
      expect(got).toEqual(want);
    }
  });
});
