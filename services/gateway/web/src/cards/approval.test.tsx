import { act, screen, within } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { UNSURE_AFTER } from "@banksman/client";
import { ada, ask, at, bash, body, closed, decision, edit, form, processState, summary, system, unknown, write } from "@banksman/client/testing";
import { online } from "../testing/harness";
import { mount } from "../testing/mount";
import { diffLines } from "./diff";
import { renderers } from "./Card";
import { isLong } from "./blocks";
import { markParts } from "./parts";
import { nextTick } from "./useNow";
import { receiptLine, span } from "./words";

const card = (id: string) => screen.getByTestId(`card-${id}`);
const button = (name: string) => screen.getByTestId<HTMLButtonElement>(name);
const soon = (s: ReturnType<typeof bash>) => ({ ...s, created_at: new Date(Date.now() - 60_000).toISOString(), expires_at: new Date(Date.now() + 540_000).toISOString() });

afterEach(() => vi.useRealTimers());

describe("approval card", () => {
  it("D0-38 D1-34: a Bash call shows command and description, Approve and Deny, and becomes its decision", async () => {
    const a = soon(bash("a"));
    const h = online([a]);
    const { user, push } = mount(h);
    expect(card("a")).toHaveTextContent("build-7 wants to run a shell command");
    expect(screen.getByRole("group", { name: "Command" }).querySelector("pre")?.textContent).toBe("rm -rf build/ && npm run build && git push --force-with-lease origin release/2.4");
    expect(card("a")).toHaveTextContent("In the agent’s own words");
    expect(card("a")).toHaveTextContent("Rebuild the bundle and push the release branch again");
    expect(card("a")).toHaveTextContent("It rewrites the history of a shared branch.");
    expect(button("deny")).toBeEnabled();
    await user.click(button("approve"));
    expect(h.answers()).toEqual([expect.objectContaining({ type: "pending_request_response", session_id: a.session_key, request_id: a.key, request_type: "tool_approval", digest: a.digest, shown: "shown-a", decision: "allow", scope: "once" })]);
    expect(card("a")).toHaveAttribute("data-state", "sending");
    push({ type: "receipt", ref: h.answers()[0]!.ref, status: "accepted", decision: decision(a, "allowed", { decided_at: new Date().toISOString() }) });
    expect(card("a")).toHaveAttribute("data-state", "confirmed");
    expect(screen.getByTestId("receipt-a")).toHaveTextContent(/Approved once by you, \d\d:\d\d, web/);
    expect(screen.queryByTestId("approve")).toBeNull();
  });

  it("D1-35: Approve sends no rewritten input; the session scope is sent only when chosen", async () => {
    const h = online([bash("a")]);
    const { user } = mount(h);
    await user.selectOptions(button("scope"), "session");
    expect(button("approve")).toHaveTextContent("Approve for session");
    await user.click(button("approve"));
    expect(h.answers()[0]).toMatchObject({ decision: "allow", scope: "session" });
    expect(h.answers()[0]).not.toHaveProperty("updated_input");
  });

  it("D1-36: Deny is one press; Deny with reason opens a field where Enter sends and Escape cancels", async () => {
    const h = online([bash("a")]);
    const { user } = mount(h);
    await user.click(button("deny-reason"));
    await user.type(screen.getByTestId("deny-reason-text"), "{Escape}");
    expect(screen.queryByTestId("deny-reason-text")).toBeNull();
    expect(h.answers()).toEqual([]);
    await user.click(button("deny-reason"));
    await user.type(screen.getByTestId("deny-reason-text"), "use main instead{Enter}");
    expect(h.answers()).toEqual([expect.objectContaining({ decision: "deny", message: "use main instead" })]);
  });

  // What is closed over words is put aside: they come back, also after a reload.
  it.each([["reason", "deny-reason", "deny-reason-text", "not on a Friday"], ["edit", "edit", "edit-text", '{"command":"make half"}']])("D1-40 D0-37: Escape and Cancel lose nothing of the %s", async (field, open, text, words) => {
    const h = online([bash("a")]);
    const first = mount(h);
    const { user } = first;
    const value = () => screen.getByTestId<HTMLTextAreaElement>(text).value;
    await user.click(button(open));
    await user.clear(screen.getByTestId(text));
    await user.click(screen.getByTestId(text));
    await user.paste(words);
    await user.keyboard("{Escape}");
    expect(screen.queryByTestId(text)).toBeNull();
    expect(screen.getByTestId("kept")).toHaveTextContent(`Not sent, and kept: your ${field}.`);
    await user.click(button(open));
    expect(value()).toBe(words);
    await user.click(screen.getByRole("button", { name: /^Cancel/ }));
    first.unmount();
    const again = mount(h);
    expect(screen.queryByTestId(text)).toBeNull(); // it was closed, and stays so
    expect(screen.getByTestId("kept")).toBeInTheDocument();
    await again.user.click(button(open));
    expect(value()).toBe(words);
    // Left open it comes back open.
    again.unmount();
    mount(h);
    expect(value()).toBe(words);
    expect(h.answers()).toEqual([]);
  });

  it("an edit that was put aside can be taken back to what the agent asked, and what was never changed is no draft", async () => {
    const h = online([bash("a")]);
    const { user } = mount(h);
    await user.click(button("edit"));
    await user.type(screen.getByTestId("edit-text"), "{Escape}");
    expect(screen.queryByTestId("edit-text")).toBeNull();
    expect(screen.queryByTestId("kept")).toBeNull();
    expect(h.app.drafts.load(bash("a").key)).toEqual({});
    await user.click(button("edit"));
    const asked = screen.getByTestId<HTMLTextAreaElement>("edit-text").value;
    await user.type(screen.getByTestId("edit-text"), "x");
    await user.click(button("edit-reset"));
    expect(screen.getByTestId<HTMLTextAreaElement>("edit-text").value).toBe(asked);
    await user.type(screen.getByTestId("edit-text"), "{Escape}");
    expect(screen.queryByTestId("kept")).toBeNull();
  });

  it("a plain Deny says so at once and without a message", async () => {
    const h = online([bash("a")]);
    const { user } = mount(h);
    await user.click(button("deny"));
    expect(h.answers()[0]).toMatchObject({ decision: "deny" });
    expect(h.answers()[0]).not.toHaveProperty("message");
  });

  it("D1-34: a Write shows path and content with its line count, folded, and Approve stays locked until all of it was opened", async () => {
    const h = online([write("w", 214)]);
    const { user } = mount(h);
    expect(card("w")).toHaveTextContent("/srv/app/src/values.ts");
    expect(card("w")).toHaveTextContent("214 lines");
    expect(card("w")).toHaveTextContent("204 lines hidden");
    expect(button("approve")).toBeDisabled();
    expect(button("deny")).toBeEnabled();
    await user.click(screen.getByText(/Show all 214 lines/));
    expect(card("w")).toHaveTextContent("value214");
    expect(button("approve")).toBeEnabled();
  });

  it("text that overflows keeps Approve locked until it was scrolled to its end", async () => {
    const h = online([write("w", 300)]);
    const { user } = mount(h);
    const height = vi.spyOn(HTMLElement.prototype, "scrollHeight", "get").mockReturnValue(5000);
    vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(400);
    await user.click(screen.getByText(/Show all 300 lines/));
    expect(button("approve")).toBeDisabled();
    const region = screen.getByRole("group", { name: "Content, whole text" });
    region.scrollTop = 4600;
    act(() => { region.dispatchEvent(new Event("scroll", { bubbles: true })); });
    expect(button("approve")).toBeEnabled();
    height.mockRestore();
    vi.restoreAllMocks();
  });

  it("D1-34: an Edit shows path and a unified diff with its counts", () => {
    mount(online([edit("e", "a\nb\nc\n", "a\nB\nc\nd\n")]));
    const rows = [...card("e").querySelectorAll("[data-op]")].map((r) => `${r.getAttribute("data-op")} ${r.lastElementChild?.textContent}`);
    expect(rows).toEqual(["same a", "del b", "add B", "same c", "add d"]);
    expect(card("e")).toHaveTextContent("+2");
    expect(card("e")).toHaveTextContent("−1");
  });

  it("a change of the last line break alone is told", () => {
    mount(online([edit("e", "a\n", "a")]));
    expect(card("e")).toHaveTextContent("The line break at the end is removed.");
  });

  it("D4-01: a tool nobody knows is shown as its input, with Approve and Deny", () => {
    mount(online([summary("x", { tool_name: "Teleport", headline: "build-7 wants to use the tool Teleport", body: body({ blocks: [{ label: "Input", form: "json", text: '{\n  "to": "Mars"\n}', lines: 3 }] }) })]));
    expect(card("x")).toHaveTextContent('"to": "Mars"');
    expect(button("approve")).toBeEnabled();
  });

  it("an unknown kind is shown raw and can only be denied or dismissed", async () => {
    const h = online([unknown("u")]);
    const { user } = mount(h);
    expect(card("u")).toHaveTextContent('"eye": "left"');
    expect(screen.queryByTestId("approve")).toBeNull();
    await user.click(button("dismiss"));
    expect(h.answers()[0]).toMatchObject({ action: "dismiss", request_type: "retina_scan" });
  });

  it("an unknown kind stays without Approve even if the server lists allow", () => {
    mount(online([{ ...unknown("u"), body: { ...unknown("u").body!, verbs: ["allow", "deny"] } }]));
    expect(screen.queryByTestId("approve")).toBeNull();
  });

  it("numbers verbatim: big numbers and 1.0 stay as they came, shown and edited", async () => {
    const input = '{"id": 9007199254740993, "ratio": 1.0, "tiny": 1e-400}';
    const h = online([summary("n", { body: body({ input, blocks: [{ label: "Input", form: "json", text: input, lines: 1 }] }) })]);
    const { user } = mount(h);
    expect(card("n")).toHaveTextContent("9007199254740993");
    expect(card("n")).toHaveTextContent("1.0");
    await user.click(button("edit"));
    const field = screen.getByTestId<HTMLTextAreaElement>("edit-text");
    expect(field.value).toBe(input);
    await user.click(button("edit-approve"));
    expect(h.answers()[0]).toMatchObject({ decision: "allow", updated_input: input });
  });

  it("an edit that is no JSON object cannot be approved", async () => {
    const h = online([bash("a")]);
    const { user } = mount(h);
    await user.click(button("edit"));
    await user.type(screen.getByTestId("edit-text"), "oops");
    expect(button("edit-approve")).toBeDisabled();
    await user.keyboard("{Control>}{Enter}{/Control}");
    expect(h.answers()).toEqual([]);
  });

  it("without the body it is fetched first, and Approve waits for it", async () => {
    const { body: _b, ...bare } = bash("a");
    const h = online([{ ...bare, tool_input: "rm -rf bui", cut: true }]);
    h.api.known.set(bare.key, { id: "a", ...bash("a"), state: "pending" });
    mount(h);
    expect(screen.queryByTestId("approve")).toBeNull();
    expect(button("deny")).toBeEnabled();
    expect(await screen.findByTestId("approve")).toBeEnabled();
    expect(h.api.calls).toContain(`interaction ${bare.key}`);
  });

  it("a body that cannot be fetched is said, with another try, and never approvable", async () => {
    const { body: _b, ...bare } = bash("a");
    const h = online([bare]);
    const { user } = mount(h);
    await screen.findByText(/could not be fetched/);
    expect(screen.queryByTestId("approve")).toBeNull();
    h.api.known.set(bare.key, { id: "a", ...bash("a"), state: "pending" });
    await user.click(screen.getByText("Fetch it again"));
    expect(await screen.findByTestId("approve")).toBeEnabled();
  });

  it("B-54: invisible characters are marks with their code, and pushed text is flagged", () => {
    mount(online([bash("a", "echo hi ⟦U+202E⟧gpj.exe", {}, { hidden: 1, pushed: true })]));
    expect(card("a").querySelector("[data-token]")?.textContent).toBe("⟦U+202E⟧");
    expect(card("a")).toHaveTextContent("1 invisible character in here");
    expect(card("a")).toHaveTextContent("pushed out of sight");
  });

  it("D0-42: agent text is text everywhere", () => {
    const evil = '<img src=x onerror="alert(1)"><script>alert(2)</script>';
    const { container } = mount(online([
      bash("a", evil, { headline: evil, title: evil, risk_reason: evil, agent_name: evil, body: body({ message: evil, reason: evil, cwd: evil, blocks: [{ label: evil, form: "command", text: evil }, { label: "File", form: "path", text: evil }, { label: "Change", form: "diff", old: evil, new: `${evil}!` }] }) }),
      ask("q", [{ id: "x", header: evil, question: evil, multi_select: false, allow_other: true, required: true, options: [{ value: evil, label: evil, description: evil, preview: evil }] }]),
    ]));
    expect(container.querySelector("script")).toBeNull();
    expect([...container.querySelectorAll("img")].every((i) => i.getAttribute("src") === "/favicon.svg")).toBe(true);
    expect(container.querySelectorAll("[onerror]")).toHaveLength(0);
    expect(container.textContent).toContain(evil);
  });
});

describe("states of a card", () => {
  it("D0-35 D1-41: while sending all buttons are dead and the pressed one is busy", async () => {
    const h = online([bash("a")]);
    const { user } = mount(h);
    await user.click(button("approve"));
    for (const name of ["approve", "deny", "deny-reason", "edit"]) expect(button(name)).toBeDisabled();
    expect(button("approve")).toHaveAttribute("aria-busy", "true");
    expect(button("deny")).not.toHaveAttribute("aria-busy");
  });

  it("B-31: after 5 s without a word it is editable again, and the same answer keeps its ref", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true });
    const h = online([bash("a")]);
    const { user } = mount(h);
    await user.click(button("approve"));
    await act(() => vi.advanceTimersByTimeAsync(UNSURE_AFTER));
    expect(card("a")).toHaveAttribute("data-state", "unsure");
    expect(button("approve")).toBeEnabled();
    await user.click(button("approve"));
    expect(h.answers()).toHaveLength(2);
    expect(h.answers()[1]!.ref).toBe(h.answers()[0]!.ref);
  });

  it("another answer after silence is another try", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true });
    const h = online([bash("a")]);
    const { user } = mount(h);
    await user.click(button("approve"));
    await act(() => vi.advanceTimersByTimeAsync(UNSURE_AFTER));
    await user.click(button("deny"));
    expect(h.answers()[1]!.ref).not.toBe(h.answers()[0]!.ref);
  });

  it("losing the race says who, when and what, never a failure", async () => {
    const a = bash("a");
    const h = online([a]);
    const { user, push } = mount(h);
    await user.click(button("approve"));
    push({ type: "receipt", ref: h.answers()[0]!.ref, status: "already_decided", decision: decision(a, "denied", { principal: ada, decided_at: new Date().toISOString() }) });
    expect(card("a")).toHaveAttribute("data-state", "lost");
    expect(screen.getByTestId("receipt-a")).toHaveTextContent(/Ada was first: denied, \d\d:\d\d, web/);
    expect(document.body.textContent).not.toMatch(/fail/i);
  });

  it("B-30 D0-37: a refusal brings the card back with the reason by field", async () => {
    const h = online([bash("a")]);
    const { user, push } = mount(h);
    await user.click(button("approve"));
    push({ type: "receipt", ref: h.answers()[0]!.ref, status: "invalid", error: "does not fit", fields: [{ field: "scope", problem: "must be once or session" }] });
    expect(card("a")).toHaveAttribute("data-state", "refused");
    expect(card("a")).toHaveTextContent("scope must be once or session");
    expect(button("approve")).toBeEnabled();
    expect(document.body.textContent).not.toMatch(/fail/i);
  });

  it("D0-39: an expired one says that nobody decided and has no buttons", () => {
    const a = bash("a");
    const h = online([a]);
    const { push } = mount(h);
    push(processState([], { closed: [closed(a, "expired", { principal: system })] }));
    expect(card("a")).toHaveAttribute("data-state", "expired");
    expect(card("a")).toHaveTextContent("Expired, nobody decided");
    expect(within(card("a")).queryByTestId("approve")).toBeNull();
  });

  it.each([["cancelled", "withdrawn", "Withdrawn by the agent"], ["orphaned", "orphaned", "the agent is gone"]] as const)("%s is told as what it is", (outcome, state, words) => {
    const a = bash("a");
    const h = online([a]);
    const { push } = mount(h);
    push(processState([], { closed: [closed(a, outcome, { principal: system })] }));
    expect(card("a")).toHaveAttribute("data-state", state);
    expect(card("a")).toHaveTextContent(words);
  });

  it("an unreachable agent is shown and still answerable", () => {
    const h = online([bash("a")]);
    const { push } = mount(h);
    push(processState([bash("a")], { unreachable: true }));
    expect(card("a")).toHaveAttribute("data-unreachable", "true");
    expect(card("a")).toHaveTextContent("cannot be reached at the moment");
    expect(button("approve")).toBeEnabled();
  });

  it("without a connection decisions are off, and the page says so", async () => {
    const h = online([bash("a")]);
    mount(h);
    act(() => h.status({ status: "lost", at: Date.now() + 4000 }));
    expect(button("approve")).toBeDisabled();
    expect(button("deny")).toBeDisabled();
    expect(screen.getByTestId("conn-status")).toHaveTextContent("Connection lost");
    act(() => h.status({ status: "online" }));
    expect(button("approve")).toBeEnabled();
  });

  it("B-79: the receipt then says delivered and acted on", () => {
    const a = bash("a");
    const h = online([a]);
    const { push } = mount(h);
    push(processState([], { closed: [closed(a, "allowed")] }));
    expect(screen.getByTestId("receipt-a")).toHaveTextContent("The agent has not said yet that it knows");
    for (const stage of ["delivered", "applied"]) push({ type: "delivery", cursor: "d", request_id: "a", key: a.key, session_key: a.session_key, v: 1, stage, decision_id: "d", at: at(9) });
    expect([...screen.getByTestId("receipt-a").querySelectorAll("[data-stage]")].map((e) => e.getAttribute("data-stage"))).toEqual(["delivered", "applied"]);
  });

  it("D4-18: a card that cannot be drawn leaves the others alone and says that it still waits", () => {
    const quiet = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const broken = { ...bash("bad"), body: body({ blocks: [{ label: "Command", form: "command", text: 7 as unknown as string }] }) };
    mount(online([broken, bash("good")]));
    expect(card("bad")).toHaveAttribute("data-state", "broken");
    expect(card("bad")).toHaveTextContent("It still waits");
    expect(within(card("good")).getByTestId("approve")).toBeEnabled();
    quiet.mockRestore();
  });

  it("D0-41: the renderer is picked by kind; a question without questions is plain", () => {
    mount(online([bash("a"), ask("q"), form("f"), ask("none", [])]));
    expect(within(card("a")).getByTestId("approve")).toBeInTheDocument();
    expect(within(card("q")).getByTestId("submit")).toBeInTheDocument();
    expect(within(card("f")).getByTestId("form-text")).toBeInTheDocument();
    expect(within(card("none")).queryByTestId("submit")).toBeNull();
  });

  it("B-76: each kind has an interactive renderer", () => {
    const made = { approval: bash("a"), question: ask("q"), form: form("f") };
    expect(Object.keys(renderers).sort()).toEqual(Object.keys(made).sort());
    mount(online(Object.values(made)));
    for (const s of Object.values(made)) {
      const live = within(card(s.request_id)).getAllByRole("button").filter((b) => !(b as HTMLButtonElement).disabled && b.dataset.testid);
      expect(live.length).toBeGreaterThan(0);
    }
  });
});

describe("words and numbers", () => {
  it("B-24: without a deadline it waits for you, and nothing ticks by the second", () => {
    mount(online([bash("a", "ls", { expires_at: undefined })]));
    expect(card("a")).toHaveTextContent("It waits for you without a deadline.");
    expect(nextTick(0, undefined)).toBe(60_000);
    expect(nextTick(0, 86_400_000)).toBe(60_000);
    expect(nextTick(0, 60_000)).toBe(1000);
    expect(nextTick(100, 50)).toBe(60_000);
  });

  it("B-20: the time left counts by the server's clock", () => {
    const h = online([]);
    const server = Date.now() + 3_600_000; // the server is an hour ahead
    const { push } = mount(h);
    push({ type: "ping", server_time: new Date(server).toISOString() });
    push(processState([bash("a", "ls", { created_at: new Date(server - 300_000).toISOString(), expires_at: new Date(server + 300_000).toISOString() })]));
    expect(screen.getByTestId("time-left").textContent).toBe("5 min");
  });

  it("B-11 B-23: an expired question says unanswered, an expired approval undecided", () => {
    const q = ask("q");
    expect(receiptLine("question", "expired", decision(q, "expired"), false, false, Date.now())).toMatch(/^Expired, nobody answered/);
    expect(receiptLine("approval", "expired", decision(q, "expired"), false, false, Date.now())).toMatch(/^Expired, nobody decided/);
    expect(span(125_000)).toBe("2 min");
    expect(span(89_000)).toBe("89 s");
  });

  it("line diffs rebuild both sides", () => {
    const texts = ["", "a\n", "a\nb\nc\n", "c\nb\na\n", "a\nx\nb\ny\nc\n", "q\n".repeat(40), "q\nr\n".repeat(30)];
    for (const x of texts) for (const y of texts) {
      const d = diffLines(x, y);
      const side = (drop: string) => d.filter((l) => l.op !== drop).map((l) => `${l.text}\n`).join("");
      expect(side("add")).toBe(x);
      expect(side("del")).toBe(y);
    }
  });

  it("a bad part is marked where it stands in the line, and no character of the line changes", () => {
    const part = (text: string, risk: string) => ({ text, joint: "then", risk, risk_reason: "x" });
    const line = "rm a; echo rm a; rm a";
    const marked = markParts(line, [part("rm a", "high"), part("echo rm a", "low"), part("rm a", "high")]);
    expect(marked).toEqual([{ text: "rm a", n: 1 }, { text: "; echo rm a; " }, { text: "rm a", n: 3 }]);
    expect(marked.map((m) => m.text).join("")).toBe(line);
    expect(markParts("x", [part("not there", "high")])).toEqual([{ text: "x" }]);
    expect(markParts("", [])).toEqual([{ text: "" }]);
  });

  it("a 500-character command is never folded", () => {
    const command = `${"x".repeat(470)} && rm -rf /important-path`;
    expect(isLong({ label: "Command", form: "command", text: command })).toBe(false);
    mount(online([bash("a", command)]));
    expect(screen.getByRole("group", { name: "Command" }).querySelector("pre")?.textContent).toBe(command);
  });
});
