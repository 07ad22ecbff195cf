import { act, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ada, ask, bash, body, closed, decision, edit, fieldForm, form, formFields, hello, me, plan, processState, question, releaseParts, session, summary, system, write } from "@banksman/client/testing";
import { online } from "../testing/harness";
import { mount } from "../testing/mount";
import { sentence } from "./Audience";
import { distinct } from "./blocks";
import { diffLines, inlineMarks, sideBySide } from "./diff";
import { formContent } from "./form";
import { markParts } from "./parts";
import { takePlace } from "../ui/route";
import { stageWord } from "./Receipt";

const card = (id: string) => screen.getByTestId(`card-${id}`);
const phone = () => vi.stubGlobal("matchMedia", (query: string) => ({ matches: query.includes("max-width"), addEventListener: () => undefined, removeEventListener: () => undefined }));

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

describe("who else, and when", () => {
  it.each([
    ["listening", /It becomes urgent .*: a notifier is there and reminds whom its settings name/],
    ["silent", /It becomes urgent .*, and no notifier is there: nobody is reminded/],
    ["unknown", /A reminder is due .*, where alerts are set up/],
  ] as const)("the card says who would remind anybody: a notifier that is %s, asked once for all cards", async (notifier, words) => {
    const soon = { attention_at: new Date(Date.now() + 60_000).toISOString() };
    const h = online([bash("a", "make", soon), bash("b", "make", soon)]);
    h.api.replies["GET /api/services"] = { runtimes: [], notifier };
    mount(h);
    await waitFor(() => expect(card("b")).toHaveTextContent(words));
    expect(card("a")).toHaveTextContent(words);
    // The question goes out once the cards are painted.
    await waitFor(() => expect(h.api.calls.filter((c) => c === "GET /api/services")).toHaveLength(1));
  });

  it("says when a reminder is due while it lies ahead, and who else may answer when asked", async () => {
    const h = online([bash("a", "make", { attention_at: new Date(Date.now() + 60_000).toISOString() }), bash("b", "make", { attention_at: new Date(Date.now() - 60_000).toISOString() }), bash("c", "make")]);
    h.api.replies["GET /api/interactions/default.agents.a/audience"] = { deciders: [{ id: "me", name: "Me", you: true }, { id: "ada", name: "Ada" }, { id: "bob", name: "" }], more: 2, viewers: 1, programs: 1 };
    const { user } = mount(h);
    expect(card("a")).toHaveTextContent(/A reminder is due .*, where alerts are set up/);
    expect(card("b")).not.toHaveTextContent("reminder");
    expect(card("c")).not.toHaveTextContent("reminder");
    expect(h.api.calls.filter((c) => c.includes("audience"))).toEqual([]);
    await user.click(within(card("a")).getByTestId("others"));
    expect(await within(card("a")).findByTestId("audience")).toHaveTextContent("Beside you Ada, bob and 2 more may answer; the first answer counts. One program may as well. One person sees that something waits, not what.");
    await user.click(within(card("b")).getByTestId("others"));
    expect(await within(card("b")).findByRole("alert")).toHaveTextContent("nothing at");
    expect(sentence({ deciders: [{ id: "me", name: "Me", you: true }] })).toBe("Nobody beside you may answer.");
  });
});

describe("a command of several parts", () => {
  it("each part has its number, how it follows, and its own risk; the raw line stays as it is", () => {
    mount(online([bash("a")]));
    const rows = within(screen.getByRole("list", { name: "The commands in this line" })).getAllByRole("listitem");
    expect(rows.map((r) => r.dataset.risk)).toEqual(["high", "medium", "high"]);
    expect(rows[0]).toHaveTextContent("1rm -rf build/firstHigh risk: deletes files for good");
    expect(rows[1]).toHaveTextContent("2npm run buildthen, if that worked");
    expect(rows[1]).not.toHaveTextContent("risk");
    expect(rows[2]).toHaveTextContent("High risk: rewrites a published branch");
    const line = card("a").querySelector("pre")!;
    expect(line.textContent).toBe("rm -rf build/ && npm run build && git push --force-with-lease origin release/2.4");
    expect([...line.querySelectorAll("mark")].map((m) => `${m.dataset.n} ${m.textContent}`)).toEqual(["1 rm -rf build/", "3 git push --force-with-lease origin release/2.4"]);
  });

  it("what a script in quotes runs is listed behind the part that runs it, and marked in the line once", () => {
    const command = "bash -c 'rm -rf x' && rm -rf x";
    const parts = [
      { text: "bash -c 'rm -rf x'", joint: "first", risk: "high", risk_reason: "deletes files for good" },
      { text: "rm -rf x", joint: "first", depth: 1, risk: "high", risk_reason: "deletes files for good" },
      { text: "rm -rf x", joint: "and", risk: "high", risk_reason: "deletes files for good" },
    ];
    const s = bash("a", command);
    mount(online([{ ...s, body: { ...s.body!, parts } }]));
    const rows = within(screen.getByRole("list", { name: "The commands in this line" })).getAllByRole("listitem");
    expect(rows).toHaveLength(3);
    expect(rows[1]).toHaveTextContent("in its script, first");
    expect(markParts(command, parts).filter((p) => p.n).map((p) => p.n)).toEqual([1, 3]);
  });

  it("the list of a long command names the bad parts only, until asked for all", async () => {
    const texts = ["a", "b", "c", "d", "e", "f", "rm -rf /x", "g"];
    const parts = texts.map((text, i) => ({ text, joint: i === 0 ? "first" : "and", risk: text.startsWith("rm") ? "high" : "low", risk_reason: "deletes files for good" }));
    const s = bash("a", texts.join(" && "));
    const { user } = mount(online([{ ...s, body: { ...s.body!, parts, more_parts: 4 } }]));
    const list = () => within(screen.getByRole("list", { name: "The commands in this line" })).queryAllByRole("listitem");
    expect(list().map((r) => (r as HTMLLIElement).value)).toEqual([7]);
    expect(card("a")).toHaveTextContent("1 of 12 commands in this line");
    await user.click(screen.getByText("List all"));
    expect(list()).toHaveLength(8);
    expect(card("a")).toHaveTextContent("4 commands more, not listed");
  });

  it("one command has no list, and text that merely looks like a joint is cut nowhere", () => {
    mount(online([bash("a", "echo 'a && b'")]));
    expect(screen.queryByRole("list", { name: "The commands in this line" })).toBeNull();
  });
});

describe("what stands where", () => {
  it("the first control that decides is the third stop in the card, and Approve is the last of the row", async () => {
    const { user } = mount(online([bash("a")]));
    act(() => card("a").focus());
    const stops: string[] = [];
    for (let i = 0; i < 7; i++) {
      await user.tab();
      stops.push((document.activeElement as HTMLElement).textContent ?? "");
    }
    expect(stops.slice(0, 3)).toEqual(["Open session", "Copy", "Deny n"]);
    expect(stops[6]).toBe("Approve once y");
  });

  it("on a phone Deny and Approve come first, in one bar, and the reason of the lock stands in it", async () => {
    phone();
    vi.stubGlobal("IntersectionObserver", class { observe(): void {} unobserve(): void {} disconnect(): void {} });
    vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockReturnValue({ top: 5000, bottom: 5000 } as DOMRect);
    const { user } = mount(online([bash("a")]));
    const bar = card("a").querySelector<HTMLElement>("[data-bar]")!;
    expect(within(bar).getAllByRole("button").map((b) => b.dataset.testid)).toEqual(["deny", "approve"]);
    expect(within(bar).getByTestId("locked")).toHaveTextContent("Approve opens once you have seen the text to its end");
    expect(screen.getByTestId("approve")).toHaveAttribute("aria-describedby", within(bar).getByTestId("locked").id);
    act(() => card("a").focus());
    for (let i = 0; i < 3; i++) await user.tab();
    expect(document.activeElement).toHaveAttribute("data-testid", "deny");
  });

  it("on a phone one bar is live at a time: that of the card in the middle, or of the one with the focus", async () => {
    phone();
    vi.stubGlobal("requestAnimationFrame", (f: () => void) => { f(); return 0; });
    const tops: Record<string, [number, number]> = { "card-a": [-300, 400], "card-b": [420, 1200] };
    vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockImplementation(function (this: HTMLElement) {
      const [top, bottom] = tops[this.dataset.testid ?? ""] ?? [0, 0];
      return { top, bottom, height: bottom - top } as DOMRect;
    });
    const { user } = mount(online([bash("a"), bash("b", "ls")]));
    const live = () => [...document.querySelectorAll<HTMLElement>('[data-bar="live"]')].map((b) => b.closest<HTMLElement>("[data-card]")!.dataset.testid);
    expect(live()).toEqual(["card-a"]);
    expect(screen.getAllByTestId("deny")).toHaveLength(1);
    tops["card-a"] = [-900, -200];
    tops["card-b"] = [-180, 600];
    act(() => { document.dispatchEvent(new Event("scroll")); });
    expect(live()).toEqual(["card-b"]);
    tops["card-a"] = [-650, 50];
    tops["card-b"] = [70, 900];
    await user.click(within(card("a")).getByText("Decide this one"));
    expect(live()).toEqual(["card-a"]);
    expect(screen.getAllByTestId("approve")).toHaveLength(1);
    expect(screen.getByTestId("approve").closest("[inert]")).not.toBeNull(); // a second tap presses nothing
    await waitFor(() => expect(screen.getByTestId("approve").closest("[inert]")).toBeNull(), { timeout: 5000 });
  });

  it("the agent's words stand once: neither the headline nor the payload is repeated", () => {
    const words = (...texts: string[]) => texts.map((text) => ({ label: "", text }));
    expect(distinct(words("Push it", "push it.", "", "Why"), ["x"]).map((w) => w.text)).toEqual(["Push it", "Why"]);
    expect(distinct(words("Edit /a.go", "Bash: make test", "Bash: rm -rf …", "Fix it"), ["/a.go", "make test", "rm -rf /x"]).map((w) => w.text)).toEqual(["Fix it"]);
    const { container } = mount(online([bash("a", "ls", { title: "Rebuild the bundle and push the release branch again" })]));
    expect(container.textContent?.match(/Rebuild the bundle and push the release branch again/g)).toHaveLength(1);
  });

  it("a title made of the questions is not said again", () => {
    mount(online([ask("q", [question(), question({ id: "z", question: "Which zone?" })], { title: "2 questions: Which database should the service use?" })]));
    expect(card("q").textContent?.match(/Which database should the service use\?/g)).toHaveLength(1);
  });

  it("the rest of the time stands in the head of the card, amber only when it is short", () => {
    const until = (ms: number) => ({ expires_at: new Date(Date.now() + ms).toISOString() });
    mount(online([bash("a", "ls", until(540_000)), bash("b", "ls", until(60_000)), bash("c", "ls", { expires_at: undefined })]));
    const left = (id: string) => within(card(id).querySelector("header")!).queryByTestId("time-left-short");
    expect(left("a")).toHaveTextContent("9 min left");
    expect(left("a")?.className).not.toContain("amber");
    expect(left("b")?.className).toContain("amber");
    expect(left("c")).toBeNull();
  });

  it("red is for what cannot be undone; a high risk that can is not red, and none is amber", () => {
    mount(online([
      bash("a", "rm -rf x", { risk: "high", irreversible: true }), bash("b", "sudo make", { risk: "high" }),
      bash("c", "banksman decide", { risk: "critical" }), bash("d", "ls", { risk: "low", irreversible: true }),
    ]));
    const chip = (id: string, word: string) => within(card(id)).getByText(word, { exact: false, selector: "header span" }).className;
    expect(chip("a", "High risk, cannot be undone")).toContain("text-red");
    for (const [id, word] of [["b", "High risk"], ["c", "Critical risk"], ["d", "Low risk"]] as const) {
      expect(chip(id, word)).not.toMatch(/red|amber/);
      expect(card(id)).not.toHaveTextContent("cannot be undone");
    }
  });
});

describe("scopes", () => {
  it("what the session's consent lets through is listed before it is given", async () => {
    const { user } = mount(online([bash("a")]));
    expect(screen.queryByTestId("grants")).toBeNull();
    await user.selectOptions(screen.getByTestId("scope"), "session");
    expect(screen.getByTestId("grants")).toHaveTextContent("will not ask again in this session for:every use of Bash that begins with “npm run build”");
  });
});

describe("views of tools", () => {
  it("a change marks what changed inside of a line, in the line that it became", () => {
    const marked = inlineMarks(diffLines("  return a - b\n", "  if (!a) throw 1\n  return a + b\n"));
    expect(marked.map((l) => l.spans?.map((s) => (s.changed ? `[${s.text}]` : s.text)).join("") ?? l.text)).toEqual(["  return a [-] b", "  if (!a) throw 1", "  return a [+] b"]);
    for (const l of marked) if (l.spans) expect(l.spans.map((s) => s.text).join("")).toBe(l.text);
    // Lines with nothing in common, and marks of invisible characters, stay whole.
    expect(inlineMarks(diffLines("alpha beta\n", "1 2 3\n")).some((l) => l.spans)).toBe(false);
    const token = inlineMarks(diffLines("one two three⟦U+202E⟧\n", "one two three⟦U+200B⟧\n"));
    expect(token[0]?.spans?.filter((s) => s.changed).map((s) => s.text)).toEqual(["⟦U+202E⟧"]);
  });

  it("two columns hold every line of both sides", () => {
    const rows = sideBySide(diffLines("a\nb\nc\n", "a\nX\nY\nc\nd\n"));
    expect(rows.map(([l, r]) => `${l?.text ?? ""}|${r?.text ?? ""}`)).toEqual(["a|a", "b|X", "|Y", "c|c", "|d"]);
  });

  it("a wide change stands side by side, a narrow one in one column, and the reader may choose", async () => {
    let width = 900;
    vi.stubGlobal("ResizeObserver", class {
      constructor(private f: (e: { contentRect: { width: number } }[]) => void) {}
      observe(): void { this.f([{ contentRect: { width } }]); }
      unobserve(): void {}
      disconnect(): void {}
    });
    const first = mount(online([edit("e", "a\nb\n", "a\nc\n")]));
    expect(card("e").querySelector("[data-split]")).not.toBeNull();
    await first.user.click(screen.getByText("One column"));
    expect(card("e").querySelector("[data-split]")).toBeNull();
    first.unmount();
    width = 358;
    mount(online([edit("e", "a\nb\n", "a\nc\n")]));
    expect(card("e").querySelector("[data-split]")).toBeNull();
    expect(screen.queryByText("Side by side")).toBeNull();
  });

  it("several changes of a file each have their counts, as the server counted", () => {
    const s = edit("m", "", "");
    const diff = (label: string, added: number) => ({ label, form: "diff", old: "a", new: "b\nc", added, removed: 1 });
    mount(online([{ ...s, body: { ...s.body!, blocks: [diff("Change 1 of 2", 2), diff("Change 2 of 2", 7)] } }]));
    expect(screen.getByRole("group", { name: "Change 1 of 2" })).toHaveTextContent("+2");
    expect(screen.getByRole("group", { name: "Change 2 of 2" })).toHaveTextContent("+7");
  });

  it("D0-42: a plan is text to read, and nothing in it is interpreted", () => {
    const { container } = mount(online([plan("p", "# Plan\n1. **go**\n<b onclick=x>now</b> [a](javascript:x)")]));
    const text = screen.getByRole("group", { name: "Plan" }).querySelector("pre")!;
    expect(text.textContent).toBe("# Plan\n1. **go**\n<b onclick=x>now</b> [a](javascript:x)");
    expect(text.className).toContain("font-sans");
    expect(container.querySelector("b, a[href^=javascript]")).toBeNull();
    expect(within(card("p")).getByTestId("approve")).toBeEnabled();
    expect(within(card("p")).getByTestId("deny-reason")).toBeEnabled();
  });
});

describe("a card that cannot be drawn", () => {
  it("D4-18: shows the request as it came, and can be denied", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const broken = { ...bash("bad"), body: body({ input: '{"command":"rm -rf /srv"}', blocks: [{ label: "Command", form: "command", text: 7 as unknown as string }] }) };
    const h = online([broken, bash("good")]);
    const { user, push } = mount(h);
    expect(card("bad")).toHaveTextContent('{"command":"rm -rf /srv"}');
    expect(within(card("bad")).queryByTestId("approve")).toBeNull();
    await user.click(within(card("bad")).getByTestId("deny"));
    expect(h.answers()).toEqual([expect.objectContaining({ request_id: broken.key, decision: "deny", digest: broken.digest })]);
    push({ type: "receipt", ref: h.answers()[0]!.ref, status: "accepted", decision: decision(broken, "denied", { decided_at: new Date().toISOString() }) });
    expect(card("bad")).toHaveTextContent("Denied by you");
    expect(within(card("bad")).queryByTestId("deny")).toBeNull();
    expect(within(card("good")).getByTestId("approve")).toBeEnabled();
  });

  it("D4-18: a broken question can be dismissed", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const h = online([ask("bad", [question({ options: 7 as unknown as [] })])]);
    const { user } = mount(h);
    await user.click(within(card("bad")).getByTestId("deny"));
    expect(h.answers()[0]).toMatchObject({ action: "dismiss" });
  });
});

describe("receipts", () => {
  it("B-79: acted on is said of what was allowed, and of nothing else", () => {
    expect(stageWord("applied", "allowed")).toBe("Acted on");
    for (const outcome of ["denied", "answered", "clarify", "dismissed", "expired", "cancelled", "orphaned", "invalid"] as const) expect(stageWord("applied", outcome)).toMatch(/agent/);
    const a = bash("a");
    const h = online([a]);
    const { push } = mount(h);
    push(processState([], { closed: [closed(a, "denied", { principal: ada })] }));
    push({ type: "delivery", cursor: "d", request_id: "a", key: a.key, session_key: a.session_key, v: 1, stage: "applied", decision_id: "d", at: new Date().toISOString() });
    expect(screen.getByTestId("receipt-a")).toHaveTextContent("The agent was told that it may not");
    expect(screen.getByTestId("receipt-a")).not.toHaveTextContent("Acted on");
  });

  it("the list of decisions fetches what a receipt shows when it is opened, and shows it as the card did", async () => {
    location.hash = "#/history";
    const s = edit("old", "a\nb\n", "a\nc\n", { tool_input: '{"file_path":' });
    const { body: _b, ...bare } = s;
    const h = online([]);
    h.api.closed = [{ id: "old", ...closed({ ...bare, cut: true }, "allowed") }];
    const at = `GET /api/interactions/${s.key}`;
    h.api.replies[at] = { id: "old", ...closed(s, "allowed") };
    mount(h);
    const details = (await screen.findByTestId("receipt-old")).querySelector("details")!;
    expect(h.api.calls).not.toContain(at);
    act(() => { details.open = true; fireEvent(details, new Event("toggle")); });
    expect((await screen.findByRole("group", { name: "Change" })).querySelectorAll("[data-op]")).toHaveLength(3);
    expect(h.api.calls.filter((c) => c === at)).toHaveLength(1);
    expect(details.open).toBe(true);
  });

  it("a reason typed while somebody else decided is kept to copy", async () => {
    const a = bash("a");
    const h = online([a]);
    const { user, push } = mount(h);
    await user.click(screen.getByTestId("deny-reason"));
    await user.type(screen.getByTestId("deny-reason-text"), "not on a Friday");
    push(processState([], { closed: [closed(a, "allowed", { principal: ada })] }));
    expect(screen.getByTestId("unsent")).toHaveTextContent("not on a Friday");
  });

  it("D1-40: what was not in one's own answer stays to copy, wherever that was given, also after a reload; Discard takes it", async () => {
    const a = bash("a");
    const h = online([a]);
    const first = mount(h);
    await first.user.click(screen.getByTestId("deny-reason"));
    await first.user.type(screen.getByTestId("deny-reason-text"), "not on a Friday");
    first.push(processState([], { closed: [closed(a, "allowed", { principal: me })] }));
    expect(screen.getByTestId("unsent")).toHaveTextContent("not on a Friday");
    first.unmount();
    const again = online([a]);
    const { user, push } = mount(again);
    push(processState([], { closed: [closed(a, "allowed", { principal: me })] }));
    expect(screen.getByTestId("unsent")).toHaveTextContent("not on a Friday");
    await user.click(screen.getByRole("button", { name: "Discard it" }));
    expect(screen.queryByTestId("unsent")).toBeNull();
    expect(again.app.drafts.load(a.key)).toEqual({});
  });

  it.each(["deny", "approve"])("D1-40: a reason that was put away is not lost by %s", async (press) => {
    const a = bash("a");
    const h = online([a]);
    const { user, push } = mount(h);
    await user.click(screen.getByTestId("deny-reason"));
    await user.type(screen.getByTestId("deny-reason-text"), "not on a Friday");
    await user.keyboard("{Escape}");
    expect(screen.getByTestId("kept")).toHaveTextContent("Not sent, and kept: your reason");
    await user.click(screen.getByTestId(press));
    push({ type: "receipt", ref: h.answers()[0]!.ref, status: "accepted" });
    expect(card("a")).toHaveAttribute("data-state", "confirmed");
    expect(screen.getByTestId("unsent")).toHaveTextContent("not on a Friday");
  });

  it("D1-40: what is in one's own answer is not called unsent, in no tab and by no order of the server's words", async () => {
    const a = bash("a");
    const h = online([a]);
    const { user, push } = mount(h);
    await user.click(screen.getByTestId("deny-reason"));
    await user.type(screen.getByTestId("deny-reason-text"), "not on a Friday");
    await user.click(screen.getByTestId("deny-reason-send"));
    push(processState([], { closed: [closed(a, "denied", { principal: me, message: "not on a Friday" })] }));
    expect(screen.queryByTestId("unsent")).toBeNull();
    expect(h.app.drafts.load(a.key)).toEqual({});
  });

  it("B-25 D0-37: two tabs do not erase each other's drafts, and show them", async () => {
    const a = bash("a");
    const [one, two] = [online([a]), online([a])];
    const tabs = [mount(one), mount(two)] as const;
    const at = (n: 0 | 1) => within(tabs[n].container);
    await tabs[0].user.click(at(0).getByTestId("deny-reason"));
    await tabs[0].user.type(at(0).getByTestId("deny-reason-text"), "not on a Friday");
    // Another tab of the browser hears of it so.
    act(() => void window.dispatchEvent(new StorageEvent("storage", { key: null })));
    expect(at(1).getByTestId("kept")).toHaveTextContent("your reason");
    await tabs[1].user.click(at(1).getByTestId("deny-reason"));
    expect(at(1).getByTestId("deny-reason-text")).toHaveValue("not on a Friday");
    tabs[0].unmount();
    mount(online([a]));
    expect(screen.getAllByTestId("deny-reason-text").at(-1)).toHaveValue("not on a Friday");
  });
});

describe("whoever may not decide", () => {
  const nothing = body({ verbs: [], scopes: [] });
  it.each([
    ["approval", bash("a", "ls", { body: nothing })],
    ["question", ask("a", [question()], { body: nothing })],
    ["form", form("a", { body: nothing })],
    ["an approval that shows what it is about", bash("a", "ls", { body: { ...bash("a").body!, verbs: [] } })],
  ])("a card has no control that decides, no key either, and says why: %s", (_kind, s) => {
    vi.useFakeTimers({ toFake: ["performance"] });
    const h = online([s]);
    mount(h);
    expect(screen.getByTestId("barred")).toHaveTextContent("your role does not reach it");
    expect(card("a")).not.toHaveTextContent("does not know requests of the kind");
    expect(within(card("a")).queryByRole("button", { name: /Approve|Deny|Submit|Dismiss|words|Edit/ })).toBeNull();
    expect(within(card("a")).queryByRole("textbox")).toBeNull();
    act(() => card("a").focus());
    for (const key of ["n", "r", "y", "e", "1"]) {
      vi.advanceTimersByTime(5_000);
      fireEvent.keyDown(card("a"), { key });
    }
    expect(h.answers()).toEqual([]);
    vi.useRealTimers();
  });

  it("an approval without a way to deny has none", () => {
    const h = online([bash("a", "ls", { body: { ...bash("a").body!, verbs: ["allow"] } })]);
    mount(h);
    expect(screen.getByTestId("approve")).toBeInTheDocument();
    expect(within(card("a")).queryByRole("button", { name: /Deny/ })).toBeNull();
  });
});

describe("a request that takes a passkey", () => {
  it("D1-40: the card leads to the passkey and back to itself, with what was written", async () => {
    const a = bash("a", "ls", { risk: "critical" });
    const h = online([a]);
    const first = mount(h);
    await first.user.click(screen.getByTestId("deny-reason"));
    await first.user.type(screen.getByTestId("deny-reason-text"), "not on a Friday");
    await first.user.keyboard("{Escape}");
    await first.user.click(screen.getByTestId("approve"));
    first.push({ type: "receipt", ref: h.answers()[0]!.ref!, status: "forbidden", error: "a request of critical risk takes a passkey (/signin.html#proof)" });
    const link = screen.getByTestId("proof");
    expect(link).toHaveAttribute("href", new URL("/signin.html#proof", location.href).href);
    expect(card("a")).not.toHaveTextContent("signin.html");
    link.addEventListener("click", (e) => e.preventDefault()); // jsdom goes nowhere
    await first.user.click(link);
    expect(takePlace(Date.now())).toBe("#/i/default.agents.a");
    first.unmount();
    mount(online([a]));
    expect(screen.getByTestId("kept")).toHaveTextContent("your reason");
  });
});

describe("drafts on a shared browser", () => {
  it("B-25: the next person who signs in there sees none of the former one's", async () => {
    const a = bash("a");
    const first = mount(online([a]));
    await first.user.click(screen.getByTestId("deny-reason"));
    await first.user.type(screen.getByTestId("deny-reason-text"), "not on a Friday");
    first.unmount();
    const h = online();
    h.push(hello({ principal: ada, server_time: new Date().toISOString() }), { type: "active_processes", cursor: "c1", sessions: [session([a])], more: false });
    const next = mount(h);
    expect(screen.queryByTestId("deny-reason-text")).toBeNull();
    expect(screen.queryByTestId("kept")).toBeNull();
    next.unmount();
    mount(online([a]));
    expect(screen.getByTestId("deny-reason-text")).toHaveValue("not on a Friday");
  });
});

describe("scripts that run from right to left", () => {
  const line = "cp \u05d0\u05d1\u05d2 12 / \u05d3\u05d4\u05d5 /etc";
  const mcp = summary("a", { tool_name: "mcp__fs__run", body: body({ blocks: [{ label: "Input", form: "json", text: `{"line": "${line}"}`, lines: 1 }] }) });
  const file = write("a", 1);
  file.body!.blocks![1]!.text = line;
  it.each([["Bash", bash("a", line)], ["Write", file], ["Edit", edit("a", "x\n", `${line}\n`)], ["an MCP tool", mcp]])("B-54: each run of such letters is by itself in %s", (_tool, s) => {
    mount(online([s]));
    expect([...card("a").querySelectorAll(".bg-code bdi")].map((b) => b.textContent)).toEqual(["\u05d0\u05d1\u05d2", "\u05d3\u05d4\u05d5"]);
  });
});

describe("form of fields", () => {
  const field = (name: string) => screen.getByTestId<HTMLInputElement>(`field-${name}`);

  it("nothing is chosen before; what is filled in goes as it was typed, numbers digit for digit", async () => {
    const h = online([fieldForm("f")]);
    const { user } = mount(h);
    expect([...card("f").querySelectorAll("input:checked")]).toEqual([]);
    expect(card("f")).toHaveTextContent("2 fields missing");
    expect(card("f")).toHaveTextContent("A whole number from 1 to 9007199254740993");
    await user.click(field("env-1"));
    await user.type(field("port"), "9007199254740993");
    await user.type(field("mail"), "a@b.example");
    await user.click(field("days-1"));
    await user.click(field("days-0"));
    await user.click(field("announce-1"));
    await user.click(screen.getByTestId("submit"));
    expect(h.answers()).toEqual([expect.objectContaining({ request_type: "form", content: '{\n  "env": "prod",\n  "port": 9007199254740993,\n  "mail": "a@b.example",\n  "days": ["mo", 2],\n  "announce": false\n}' })]);
  });

  it("the server's messages stand at their fields, and what was typed stays", async () => {
    const h = online([fieldForm("f")]);
    const { user, push } = mount(h);
    await user.click(field("env-0"));
    await user.type(field("port"), "0");
    await user.click(screen.getByTestId("submit"));
    push({ type: "receipt", ref: h.answers()[0]!.ref, status: "invalid", error: "it does not fit", fields: [{ field: "content.port", problem: "must be at least 1" }] });
    expect(field("port")).toHaveAttribute("aria-invalid", "true");
    expect(document.getElementById(field("port").getAttribute("aria-describedby")!)).toHaveTextContent("Port must be at least 1");
    expect(card("f").textContent?.match(/must be at least 1/g)).toHaveLength(1);
    expect(field("port").value).toBe("0");
  });

  it("B-25: what was filled in survives a reload, and losing the race", async () => {
    const h = online([fieldForm("f")]);
    const first = mount(h);
    await first.user.type(field("mail"), "a@b.example");
    first.unmount();
    const again = online([fieldForm("f")]);
    const { push } = mount(again);
    expect(field("mail").value).toBe("a@b.example");
    push(processState([], { closed: [closed(fieldForm("f"), "expired", { principal: system })] }));
    expect(screen.getByTestId("unsent")).toHaveTextContent("mail: a@b.example");
  });

  it("may be written as JSON instead, beginning with what was filled in", async () => {
    const h = online([fieldForm("f")]);
    const { user } = mount(h);
    await user.type(field("port"), "7");
    await user.click(screen.getByText("Write it as JSON instead"));
    expect(screen.getByTestId<HTMLTextAreaElement>("form-text").value).toBe('{\n  "port": 7\n}');
    await user.click(screen.getByText("Back to the fields"));
    expect(field("port").value).toBe("7");
  });

  it("what is no number is said at once and not sent", () => {
    const of = (port: string) => formContent(formFields, { port });
    for (const bad of ["1,5", "abc", "1.", ".5", "0x10", "1e", "--1"]) expect(of(bad).problems).toEqual({ port: "must be a number such as 12 or 0.5" });
    for (const good of ["0", "-1", "1.0", "1e400", "90071992547409931"]) expect(of(good).text).toBe(`{\n  "port": ${good}\n}`);
    expect(of("  ").missing).toEqual(["env", "port"]);
    expect(formContent(formFields, { __proto__: null as unknown as string }).empty).toBe(true);
    expect(JSON.parse(formContent([{ name: 'a"\n', label: "a", type: "string", required: false }], { 'a"\n': 'x"\ny' }).text)).toEqual({ 'a"\n': 'x"\ny' });
  });
});

describe("fixtures", () => {
  it("the parts of the release command are pieces of it", () => {
    const s = summary("x", bash("x"));
    for (const p of releaseParts) expect(s.tool_input).toContain(p.text);
  });
});
