import { describe, expect, it } from "vitest";
import { parse } from "./parse.ts";

describe("parse", () => {
  it("C-03 invariant5: numbers of an edited input and of a form's content stay the text they were", () => {
    const text = '{"type":"receipt","decision":{"updated_input":{"id":9007199254740993,"deep":[{"x":1e400}]},"content": 12345678901234567890 ,"outcome":"allowed"},"seq":5}';
    const r = parse(text) as { decision: Record<string, unknown>; seq: number };
    expect(r.decision).toEqual({ updated_input: '{"id":9007199254740993,"deep":[{"x":1e400}]}', content: "12345678901234567890", outcome: "allowed" });
    expect(r.seq).toBe(5);
  });

  it("texts and null are left as they are, and words that look like keys inside of a text too", () => {
    const v = { content: "plain", updated_input: null, message: 'he said "content": {1} and \\"updated_input": [', list: [{ content: true }] };
    expect(parse(JSON.stringify(v))).toEqual({ ...v, list: [{ content: "true" }] });
  });

  it("brackets and quotes inside of the value do not end it", () => {
    const raw = '{"a":"}\\"]{","b":[[],{"c":"\\\\"}]}';
    expect(parse(`[{"content":${raw}},{"content":${raw}}]`)).toEqual([{ content: raw }, { content: raw }]);
  });

  it("what is no JSON is still none", () => {
    for (const bad of ["{", '{"content":', '{"content":{', '{"content":[1}', '{"content":1']) expect(() => parse(bad)).toThrow(SyntaxError);
  });
});
