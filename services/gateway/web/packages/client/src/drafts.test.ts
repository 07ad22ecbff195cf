import { describe, expect, it } from "vitest";
import { Drafts, draftText, memoryStorage, unsent } from "./drafts.ts";

const full = { answers: { q: { values: ["pg"], useOther: true, other: "and mine" } }, reason: "why", text: "prompt" };

describe("drafts", () => {
  it("B-25: are kept by interaction in the storage that was handed in", () => {
    const storage = memoryStorage();
    new Drafts(storage).save("k1", full);
    new Drafts(storage).save("k2", { reason: "other" });
    expect(new Drafts(storage).load("k1")).toEqual(full);
    expect(draftText(new Drafts(storage).load("k1"))).toBe("pg\nand mine\nwhy");
    new Drafts(storage).drop("k1");
    expect(new Drafts(storage).load("k1")).toEqual({});
    expect(new Drafts(storage).load("k2")).toEqual({ reason: "other" });
  });

  it("an empty one takes no room, an old one goes, foreign values stay", () => {
    const storage = memoryStorage();
    const d = new Drafts(storage);
    d.save("k", full);
    d.save("k", {});
    expect(storage.length).toBe(0);
    storage.setItem("banksman.draft.old", JSON.stringify({ at: 0, draft: full }));
    storage.setItem("banksman.draft.odd", "{");
    storage.setItem("other", "x");
    d.save("new", full);
    d.dropOld(Date.now());
    expect(d.load("old")).toEqual({});
    expect(d.load("new")).toEqual(full);
    expect(storage.getItem("banksman.draft.odd")).toBe("{");
    expect(storage.getItem("other")).toBe("x");
  });

  it("a storage that refuses costs nothing but the draft", () => {
    const refuse = () => { throw new Error("full"); };
    const d = new Drafts({ length: 1, key: refuse, getItem: refuse, setItem: refuse, removeItem: refuse });
    d.save("k", full);
    d.drop("k");
    d.dropOld(0);
    expect(d.load("k")).toEqual({});
  });

  it("B-25: tabs that share a storage change only what they write", () => {
    const storage = memoryStorage();
    const [a, b] = [new Drafts(storage), new Drafts(storage)];
    b.load("k");
    a.change("k", { reason: "why" });
    b.change("k", { shut: undefined });
    b.change("k", { clarify: "words" });
    expect(a.load("k")).toEqual({ reason: "why", clarify: "words" });
  });

  it("what a full storage does not take lasts as long as the page", () => {
    const full = { ...memoryStorage(), setItem: () => { throw new Error("full"); } };
    const d = new Drafts(full);
    d.change("k", { reason: "why" });
    expect(d.load("k")).toEqual({ reason: "why" });
    expect(new Drafts(full).load("k")).toEqual({});
  });

  it("each person has their own; what was written before anybody was known is the first one's", () => {
    const storage = memoryStorage();
    const page = () => new Drafts(storage);
    const early = page();
    let told = 0;
    early.watch("k", () => told++);
    early.save("k", { reason: "mine" });
    early.own({ kind: "person", id: "ada" });
    expect(told).toBe(2);
    expect(early.load("k")).toEqual({ reason: "mine" });
    const next = page();
    next.own({ kind: "person", id: "grace" });
    expect(next.load("k")).toEqual({});
    next.save("k", { reason: "hers" });
    const back = page();
    back.own({ kind: "person", id: "ada" });
    expect(back.load("k")).toEqual({ reason: "mine" });
    expect(page().load("k")).toEqual({});
  });

  it("B-25: what was typed before anybody was known stands beside what that person had", () => {
    const ada = { kind: "person", id: "ada" } as const;
    const storage = memoryStorage();
    const before = new Drafts(storage);
    before.own(ada);
    before.save("new", { text: "half a prompt" });
    const page = new Drafts(storage);
    page.save("new", { text: "typed on a slow line" });
    page.own(ada);
    expect(page.load("new").text).toBe("half a prompt\ntyped on a slow line");
    const full = new Drafts({ ...memoryStorage(), length: 0, setItem: () => { throw new Error("full"); } });
    full.save("k", { reason: "kept as long as the page" });
    full.own(ada);
    expect(full.load("k").reason).toBe("kept as long as the page");
  });

  it("D1-40: an answer takes the words that it has, and no others", () => {
    const typed = { answers: { q: { values: ["pg"], useOther: false, other: "MariaDB" } }, reason: " why ", clarify: "ask ops", edit: '{"a": 1}', form: '{"n": 7}', fields: { n: "7", m: "x@y" } };
    expect(unsent({ reason: " why " }, { message: "why" })).toEqual({});
    expect(unsent({ edit: '{"a": 1}' }, { updated_input: { a: 1 } })).toEqual({});
    expect(unsent({ edit: "{}" }, {}, "{}")).toEqual({});
    expect(unsent({ form: '{"n": 7}', fields: { n: "7" } }, { content: '{"n": 7}' })).toEqual({});
    expect(unsent({ answers: typed.answers }, { answers: [{ question_id: "q", values: [], other: "MariaDB" }] })).toEqual({});
    expect(unsent({ answers: { q: { values: ["pg"], useOther: false, other: "" } } }, { answers: [{ question_id: "q", values: ["pg"] }] })).toEqual({});
    expect(unsent(typed, {})).toEqual({ ...typed, answers: { q: { values: [], useOther: false, other: "MariaDB" } } });
  });
});
