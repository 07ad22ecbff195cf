import { describe, expect, it } from "vitest";
import { ask, bash, body, edit, features, form, question, summary, unknown, write } from "@banksman/client/testing";
import { peek, rowOffer } from "./row";

const low = { risk: "low", risk_reason: undefined };

describe("what a row may decide", () => {
  it("a short command of low risk, with all that is said of it", () => {
    const offer = rowOffer(bash("a", "ls -la", low));
    expect(offer).toMatchObject({ may: "approve", block: { text: "ls -la" }, notes: ["/srv/app", "Rebuild the bundle and push the release branch again"] });
  });

  it("a few lines of JSON", () => {
    const json = { label: "Input", form: "json", text: '{\n  "pattern": "main"\n}' };
    expect(rowOffer(summary("a", { ...low, body: body({ blocks: [json] }) }))).toMatchObject({ may: "approve" });
    expect(rowOffer(summary("a", { ...low, body: body({ blocks: [{ ...json, text: "{\n\n\n\n\n}" }] }) }))).toEqual({ may: "look" });
  });

  it.each([
    ["of higher risk", bash("a", "ls", { risk: "medium" })],
    ["whose risk is not known", bash("a", "ls", { risk: "" })],
    ["too long to be shown", bash("a", "x".repeat(161), low)],
    ["of more than one line", bash("a", "ls\nrm -rf /", low)],
    ["with an invisible character", bash("a", "ls ⟦U+202E⟧", low)],
    ["with hidden characters that are counted", bash("a", "ls", low, { hidden: 1 })],
    ["that is pushed out of sight", bash("a", "ls", low, { pushed: true })],
    ["that is cut", bash("a", "ls", { ...low, cut: true })],
    ["that is not whole yet", bash("a", "ls", { ...low, body: undefined })],
    ["with a long description", bash("a", "ls", { ...low, body: body({ blocks: [{ label: "Command", form: "command", text: "ls" }, { label: "Description", form: "text", text: "y".repeat(161) }] }) })],
    ["with words of the agent", bash("a", "ls", { ...low, body: body({ message: "trust me", blocks: [{ label: "Command", form: "command", text: "ls" }] }) })],
    ["with a reason", bash("a", "ls", { ...low, body: body({ reason: "because", blocks: [{ label: "Command", form: "command", text: "ls" }] }) })],
    ["with choices of the agent's own", bash("a", "ls", { ...low, body: body({ options: [{ option_id: "x", name: "x", kind: "allow", effect: "allow" }], blocks: [{ label: "Command", form: "command", text: "ls" }] }) })],
    ["that cannot be allowed", bash("a", "ls", { ...low, body: body({ verbs: ["deny"], blocks: [{ label: "Command", form: "command", text: "ls" }] }) })],
    ["without a payload", summary("a", { ...low, body: body() })],
    ["with two payloads", write("a", 1, low)],
    ["that changes a file", edit("a", "x", "y", low)],
    ["of an unknown kind", { ...unknown("a"), risk: "low" }],
    ["that is a form", form("a")],
  ])("ux 6: nothing of one %s", (_name, s) => {
    expect(rowOffer(s)).toEqual({ may: "look" });
  });

  it("one question with few options that all stand there", () => {
    expect(rowOffer(ask("a"))).toMatchObject({ may: "answer", question: { id: "db" } });
  });

  it.each([
    ["two questions", ask("a", [question(), features])],
    ["several choices", ask("a", [features])],
    ["no options", ask("a", [question({ options: [] })])],
    ["more options than fit", ask("a", [question({ options: Array.from({ length: 5 }, (_, i) => ({ value: `${i}`, label: `${i}` })) })])],
    ["a preview", ask("a", [question({ options: [{ value: "a", label: "a", preview: "p" }, { value: "b", label: "b" }] })])],
    ["long texts", ask("a", [question({ question: "?".repeat(241) })])],
    ["words beside it", ask("a", [question()], { body: { verbs: ["answer"], scopes: [], questions: [question()], message: "first read this" } })],
  ])("ux 6: no question with %s", (_name, s) => {
    expect(rowOffer(s)).toEqual({ may: "look" });
  });
});

describe("the line of a row that is to be looked at", () => {
  it.each([
    ["a command", bash("a", "make\ndeploy"), "make deploy"],
    ["the path of a change", edit("a", "x", "y"), "/srv/app/math.js"],
    ["input that is not whole yet, on one line", summary("a", { tool_input: '{\n  "file_path": "/srv/x"\n}', body: undefined }), '{ "file_path": "/srv/x" }'],
    ["nothing where there is none", ask("a"), ""],
  ])("%s", (_name, s, want) => {
    expect(peek(s)).toBe(want);
  });
});
