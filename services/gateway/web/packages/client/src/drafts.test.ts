import { describe, expect, it } from "vitest";
import { Drafts, draftText, memoryStorage } from "./drafts.ts";

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
});
