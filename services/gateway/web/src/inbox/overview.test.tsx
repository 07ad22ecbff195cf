import { act, fireEvent, screen, within } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ada, ask, at, bash, closed, decision, processState, session } from "@banksman/client/testing";
import { KEY_PAUSE } from "../cards/keys";
import { harness, online } from "../testing/harness";
import { mount } from "../testing/mount";

afterEach(() => vi.useRealTimers());

const low = { risk: "low", risk_reason: undefined };

function many(n: number) {
  return Array.from({ length: n }, (_, i) => bash(`r${i}`, `ls ${i}`, { ...low, created_at: at(i), headline: `build-7 wants to list ${i}` }));
}

const order = () => screen.getAllByRole("article").map((c) => c.dataset.testid);

describe("overview", () => {
  it("many that wait are shown as rows, few as cards, and what a person chose stays", async () => {
    const h = online(many(12));
    const { user, unmount } = mount(h);
    expect(screen.getByTestId("inbox")).toHaveAttribute("data-view", "rows");
    expect(screen.getAllByRole("article")).toHaveLength(12);
    await user.click(screen.getByTestId("view"));
    expect(screen.getByTestId("card-r0")).toBeInTheDocument();
    unmount();
    mount(online(many(12)));
    expect(screen.getByTestId("inbox")).toHaveAttribute("data-view", "cards");
  });

  it("the view does not change while more come in", () => {
    const few = many(3);
    const h = online(few);
    const { push } = mount(h);
    push(processState(many(20)));
    expect(screen.getByTestId("inbox")).toHaveAttribute("data-view", "cards");
  });

  it("ux 6: a row approves what it shows whole, with the digest of just that, and opens the rest", async () => {
    localStorage.setItem("banksman.set.inbox", "rows");
    const h = online([bash("a", "ls -la", low), bash("b")]);
    const { user } = mount(h);
    const a = within(screen.getByTestId("row-a"));
    expect(a.getByText("ls -la")).toBeInTheDocument();
    const b = within(screen.getByTestId("row-b"));
    expect(b.queryByRole("button", { name: /approve|deny/i })).toBeNull();
    await user.click(a.getByTestId("row-a-approve"));
    expect(h.answers()).toMatchObject([{ request_id: "default.agents.a", digest: "digest-a", decision: "allow", scope: "once" }]);
    expect(a.getByTestId("row-a-approve")).toBeDisabled();
    await user.click(b.getByTestId("row-b-open"));
    expect(screen.getByTestId("card-b")).toHaveFocus();
    expect(screen.queryByTestId("row-b")).toBeNull();
    expect(within(screen.getByTestId("card-b")).getByTestId("approve")).toBeInTheDocument();
    expect(h.answers()).toHaveLength(1);
    await user.click(screen.getByRole("button", { name: /^Fold/ }));
    expect(screen.getByTestId("row-b")).toHaveFocus();
  });

  it("a row of low risk fetches what the list did not bring, others do not", async () => {
    localStorage.setItem("banksman.set.inbox", "rows");
    const whole = bash("a", "ls -la", low);
    const h = online([{ ...whole, body: undefined }, { ...bash("b"), body: undefined }]);
    h.api.known.set(whole.key, { id: "a", state: "pending", ...whole });
    mount(h);
    expect(await screen.findByTestId("row-a-approve")).toBeInTheDocument();
    expect(h.api.calls.filter((c) => c.startsWith("interaction "))).toEqual([`interaction ${whole.key}`]);
  });

  it("a question that stands there whole is answered in its row", async () => {
    localStorage.setItem("banksman.set.inbox", "rows");
    const h = online([ask("q"), bash("a")]);
    const { user } = mount(h);
    await user.click(screen.getByTestId("row-q-opt-1"));
    expect(h.answers()).toMatchObject([{ request_id: "default.agents.q", answers: [{ question_id: "db", values: ["lite"] }] }]);
  });

  it("C-15: a row becomes its receipt in its place, and shows the whole again", async () => {
    const list = many(9);
    const h = online(list);
    const { user, push } = mount(h);
    push(processState(list.slice(1), { closed: [closed(list[0]!, "denied", { principal: ada })] }));
    expect(order()[0]).toBe("row-r0");
    expect(screen.getByTestId("row-r0")).toHaveTextContent("Denied by Ada");
    await user.click(within(screen.getByTestId("row-r0")).getByRole("button", { name: /^Show/ }));
    expect(screen.getByTestId("receipt-r0")).toBeInTheDocument();
  });

  it("B-60: keys of a row act after a pause, never while typing, and y on what is not whole only opens it", () => {
    vi.useFakeTimers();
    localStorage.setItem("banksman.set.inbox", "rows");
    const h = online([bash("a", "ls", low), bash("b")]);
    mount(h);
    const a = screen.getByTestId("row-a");
    act(() => a.focus());
    fireEvent.keyDown(a, { key: "y" });
    expect(h.answers()).toHaveLength(0);
    act(() => vi.advanceTimersByTime(KEY_PAUSE + 1));
    fireEvent.keyDown(a, { key: "j" });
    const b = screen.getByTestId("row-b");
    expect(b).toHaveFocus();
    act(() => vi.advanceTimersByTime(KEY_PAUSE + 1));
    fireEvent.keyDown(b, { key: "y" });
    expect(screen.getByTestId("card-b")).toHaveFocus();
    expect(h.answers()).toHaveLength(0);
    act(() => a.focus());
    act(() => vi.advanceTimersByTime(KEY_PAUSE + 1));
    fireEvent.keyDown(screen.getByTestId("select-a"), { key: "n" });
    expect(h.answers()).toMatchObject([{ request_id: "default.agents.a", decision: "deny" }]);
  });

  it("single keys can be switched off, j and k with them", () => {
    vi.useFakeTimers();
    localStorage.setItem("banksman.keys", "off");
    const h = online(many(9));
    mount(h);
    fireEvent.keyDown(document.body, { key: "j" });
    expect(document.body).toHaveFocus();
    fireEvent.keyDown(document.body, { key: "?" });
    expect(screen.queryByRole("dialog")).toBeNull();
    const row = screen.getByTestId("row-r0");
    act(() => row.focus());
    act(() => vi.advanceTimersByTime(KEY_PAUSE + 1));
    for (const key of ["y", "n", "x", "j", "Enter"]) fireEvent.keyDown(row, { key });
    expect(h.answers()).toHaveLength(0);
    expect(screen.queryByTestId("selection")).toBeNull();
    expect(row).toHaveFocus();
  });

  it("j from anywhere else leads to the first that waits and decides nothing", () => {
    const h = online(many(9));
    mount(h);
    fireEvent.keyDown(document.body, { key: "j" });
    expect(screen.getByTestId("row-r0")).toHaveFocus();
    expect(h.answers()).toHaveLength(0);
  });

  it("very many that wait: one light row each, and whole cards only so many at once", async () => {
    const h = online(many(150));
    const { user } = mount(h);
    const articles = () => document.querySelectorAll("article").length;
    expect(screen.getByText("150 requests wait for you")).toBeInTheDocument();
    expect(articles()).toBe(150);
    await user.click(screen.getByTestId("view"));
    expect(articles()).toBe(30);
    await user.click(screen.getByTestId("more-cards"));
    expect(articles()).toBe(60);
  });

  it("what is new comes at the end while somebody points at the list, whatever the order", async () => {
    localStorage.setItem("banksman.set.inbox", "cards");
    const late = bash("late", "ls", { created_at: at(1), expires_at: at(500) });
    const later = bash("later", "ls", { created_at: at(2), expires_at: at(600) });
    const soon = bash("soon", "ls", { created_at: at(3), expires_at: at(100) });
    const h = online([late, later]);
    const { user, push } = mount(h);
    await user.click(screen.getByText("Newest last"));
    await user.hover(screen.getByTestId("card-late"));
    push(processState([late, later, soon]));
    expect(order()).toEqual(["card-late", "card-later", "card-soon"]);
    await user.hover(screen.getByTestId("conn-status"));
    expect(order()).toEqual(["card-soon", "card-late", "card-later"]);
  });

  it("B-20: the time that is left goes down by the second near its end", () => {
    vi.useFakeTimers();
    localStorage.setItem("banksman.set.inbox", "rows");
    mount(online([bash("a", "ls", { expires_at: new Date(Date.now() + 34_500).toISOString() })]));
    expect(screen.getByTestId("row-a")).toHaveTextContent("35 s left");
    act(() => vi.advanceTimersByTime(10_000));
    expect(screen.getByTestId("row-a")).toHaveTextContent("25 s left");
  });

  it.each([["approve", bash("a", "ls -la", low), "row-a-approve"], ["deny", bash("a", "ls -la", low), "row-a-deny"], ["an option", ask("a"), "row-a-opt-0"]] as const)("the focus stays on the row that was decided: %s", async (_what, s, button) => {
    localStorage.setItem("banksman.set.inbox", "rows");
    const h = online([s]);
    const { user, push } = mount(h);
    act(() => screen.getByTestId(button).focus());
    await user.keyboard("{Enter}");
    expect(screen.getByTestId("row-a")).toHaveFocus();
    push({ type: "receipt", ref: h.answers()[0]!.ref!, status: "accepted" });
    expect(screen.getByTestId("row-a")).toHaveAttribute("data-state", "confirmed");
    expect(screen.getByTestId("row-a")).toHaveFocus();
  });

  it("a row that ends under the focus keeps it", () => {
    localStorage.setItem("banksman.set.inbox", "rows");
    const s = bash("a", "ls -la", low);
    const { push } = mount(online([s]));
    act(() => screen.getByTestId("row-a-open").focus());
    push(processState([], { closed: [closed(s, "denied", { principal: ada })] }));
    expect(screen.getByTestId("row-a")).toHaveFocus();
  });

  it("D1-40: words that were put away before a row was decided are told in its receipt", async () => {
    localStorage.setItem("banksman.set.inbox", "rows");
    const h = online([ask("a")]);
    h.app.drafts.save("default.agents.a", { clarify: "which of them?" });
    const { user, push } = mount(h);
    await user.click(screen.getByTestId("row-a-opt-0"));
    push({ type: "receipt", ref: h.answers()[0]!.ref!, status: "accepted" });
    expect(screen.getByTestId("row-a")).toHaveTextContent("What you had written was not sent");
    await user.click(within(screen.getByTestId("row-a")).getByRole("button", { name: /^Show/ }));
    expect(screen.getByTestId("unsent")).toHaveTextContent("which of them?");
  });

  it("the oldest receipts go once nobody points at the list, and none that has words which were not sent", () => {
    const list = many(23);
    localStorage.setItem("banksman.set.inbox", "rows");
    const h = online(list);
    h.app.drafts.save("default.agents.r0", { reason: "not on a Friday" });
    const { push } = mount(h);
    const box = screen.getByTestId("row-r0").closest("[data-entry]")!.parentElement!.parentElement!;
    act(() => void box.dispatchEvent(new Event("pointerenter")));
    push(processState([], { closed: list.map((s) => closed(s, "denied", { principal: ada })) }));
    expect(order()).toHaveLength(23);
    act(() => void box.dispatchEvent(new Event("pointerleave")));
    expect(order()).toHaveLength(21);
    expect(screen.getByTestId("row-r0")).toBeInTheDocument();
    expect(screen.queryByTestId("row-r1")).toBeNull();
    expect(screen.queryByTestId("row-r2")).toBeNull();
  });

  it("receipts take no place from what waits, and have an end also under the hand", () => {
    const list = many(130);
    localStorage.setItem("banksman.set.inbox", "cards");
    const { push } = mount(online(list));
    const box = document.querySelector("[data-entry]")!.parentElement!;
    act(() => void box.dispatchEvent(new Event("pointerenter")));
    push(processState(list.slice(60), { closed: list.slice(0, 60).map((s) => closed(s, "denied", { principal: ada })) }));
    const cards = () => document.querySelectorAll("[data-card][data-state=pending]").length;
    expect(cards()).toBe(30);
    expect(screen.getByTestId("more-cards")).toHaveTextContent("Show 30 more, 40 are not drawn yet");
    push(processState(list.slice(120), { closed: list.slice(60, 120).map((s) => closed(s, "denied", { principal: ada })) }));
    expect(cards()).toBe(10);
    expect(document.querySelectorAll("[data-entry]")).toHaveLength(110);
  });

  it("filters by project, agent and kind", async () => {
    localStorage.setItem("banksman.set.inbox", "rows");
    const h = online([bash("a", "ls", { project_id: "shop" }), bash("b", "ls", { project_id: "bank", agent_name: "deploy" }), ask("c", undefined, { project_id: "bank" })]);
    const { user } = mount(h);
    await user.selectOptions(screen.getByLabelText("Project"), "bank");
    expect(order()).toEqual(["row-b", "row-c"]);
    await user.selectOptions(screen.getByLabelText("Agent"), "deploy");
    expect(order()).toEqual(["row-b"]);
    await user.selectOptions(screen.getByLabelText("Agent"), "");
    await user.selectOptions(screen.getByLabelText("Kind"), "question");
    expect(order()).toEqual(["row-c"]);
  });

  it("a new one takes no focus and is announced", () => {
    const list = many(9);
    const h = online(list);
    const { push } = mount(h);
    const row = screen.getByTestId("row-r3");
    row.focus();
    push(processState([...list, bash("n", "ls", { created_at: at(60), headline: "build-7 wants more" })]));
    expect(row).toHaveFocus();
    expect(screen.getByTestId("live-region")).toHaveTextContent("New request: build-7 wants more");
  });
});

describe("deciding many at once", () => {
  const three = () => [bash("a", "ls a", { created_at: at(1) }), bash("b", "ls b", { created_at: at(2) }), bash("c", "ls c", { created_at: at(3) })];

  async function sheet(list = three()) {
    localStorage.setItem("banksman.set.inbox", "rows");
    const h = online(list);
    const m = mount(h);
    for (const s of list) await m.user.click(screen.getByTestId(`select-${s.request_id}`));
    await m.user.click(screen.getByTestId("batch-open"));
    return { h, ...m };
  }

  it("the sheet lists each in full; each is decided with its own digest, once only, through the one way", async () => {
    const { h, user } = await sheet();
    for (const [id, line] of [["a", "ls a"], ["b", "ls b"], ["c", "ls c"]] as const) {
      expect(screen.getByTestId(`batch-${id}`)).toHaveTextContent(line);
    }
    await user.click(screen.getByTestId("batch-approve"));
    expect(h.answers().map((f) => [f.type, f.request_id, f.digest, f.decision, f.scope])).toEqual([
      ["pending_request_response", "default.agents.a", "digest-a", "allow", "once"],
      ["pending_request_response", "default.agents.b", "digest-b", "allow", "once"],
      ["pending_request_response", "default.agents.c", "digest-c", "allow", "once"],
    ]);
  });

  it("where some fail the rest stays exactly as it was, and it says which and why", async () => {
    const list = three();
    const { h, user, push } = await sheet(list);
    await user.type(screen.getByTestId("batch-reason"), "not now");
    await user.click(screen.getByTestId("batch-deny"));
    const [a, b, c] = h.answers();
    expect(a).toMatchObject({ decision: "deny", message: "not now" });
    push(
      { type: "receipt", ref: a!.ref!, status: "accepted", decision: decision(list[0]!, "denied") },
      { type: "receipt", ref: b!.ref!, status: "already_decided", decision: decision(list[1]!, "allowed", { principal: ada }) },
      { type: "receipt", ref: c!.ref!, status: "forbidden", error: "not of your project" },
    );
    expect(await screen.findByTestId("fate-a")).toHaveTextContent("Denied");
    expect(screen.getByTestId("fate-b")).toHaveTextContent("Ada was first");
    expect(screen.getByTestId("fate-c")).toHaveTextContent("not of your project");
    expect(await screen.findByText(/2 not: the reasons/)).toBeInTheDocument();
    await user.click(screen.getByTestId("batch-close"));
    expect(h.app.store.get().items["default.agents.c"]).toMatchObject({ closed: false });
    expect(screen.getByTestId("select-c")).toBeChecked();
    expect(screen.getByTestId("selection")).toHaveTextContent("1 selected");
  });

  it("D1-40: a reason outlives Esc and a reload, and goes to nothing else", async () => {
    const list = three();
    const first = await sheet(list);
    await first.user.type(screen.getByTestId("batch-reason"), "not now");
    fireEvent(screen.getByTestId("batch"), new Event("close"));
    expect(screen.queryByTestId("batch")).toBeNull();
    await first.user.click(screen.getByTestId("batch-open"));
    expect(screen.getByTestId("batch-reason")).toHaveValue("not now");
    first.unmount();
    const again = await sheet(list);
    expect(screen.getByTestId("batch-reason")).toHaveValue("not now");
    again.unmount();
    await sheet([bash("other")]);
    expect(screen.getByTestId("batch-reason")).toHaveValue("");
  });

  it("while answers are on their way the sheet stays, so that what becomes of them is read", async () => {
    const list = three();
    const { h, user, push } = await sheet(list);
    await user.click(screen.getByTestId("batch-deny"));
    const box = screen.getByTestId("batch");
    expect(fireEvent.keyDown(box, { key: "Escape" })).toBe(false);
    fireEvent(box, new Event("close"));
    expect(screen.getByRole("button", { name: "Close", hidden: true })).toBeDisabled();
    push(...h.answers().map((f, i) => ({ type: "receipt" as const, ref: f.ref!, status: "accepted" as const, decision: decision(list[i]!, "denied") })));
    expect((await within(box).findAllByText("3 decided.")).length).toBeGreaterThan(0);
    expect(screen.queryByTestId("selection")).toBeNull();
  });

  it("no word from the server is no failure: it may be sent again", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true });
    const { h, user } = await sheet([bash("a")]);
    await user.click(screen.getByTestId("batch-deny"));
    await act(() => vi.advanceTimersByTimeAsync(6000));
    expect(await screen.findByTestId("fate-a")).toHaveTextContent("No word from the server yet");
    expect(h.answers()).toHaveLength(1);
  });

  it("what changed or ended while the sheet was open is not sent", async () => {
    const list = three();
    const { h, user, push } = await sheet(list);
    push(processState([{ ...list[0]!, digest: "another" }, list[2]!], { closed: [closed(list[1]!, "denied", { principal: ada })] }));
    expect(screen.getByTestId("batch-a")).toHaveTextContent("not the one that was selected");
    expect(screen.getByTestId("batch-b")).toHaveTextContent("settled meanwhile");
    await user.click(screen.getByTestId("batch-deny"));
    expect(h.answers().map((f) => f.request_id)).toEqual(["default.agents.c"]);
  });

  it.each([
    ["a critical one", [bash("a", "ls", { risk: "critical" })], "approved by itself"],
    ["what cannot be approved", [bash("a", "ls", { body: { verbs: ["deny"], scopes: [], blocks: [] } })], "cannot be approved"],
    ["a long text that was not opened", [bash("a", "x\n".repeat(80))], "seen all of it"],
    ["one that is not here whole", [bash("a", "ls", { body: undefined })], "here in full"],
  ])("%s keeps Approve locked, and Deny open", async (_name, list, why) => {
    const { h, user } = await sheet(list);
    expect(screen.getByTestId("batch-approve")).toBeDisabled();
    expect(screen.getByTestId("batch")).toHaveTextContent(why);
    await user.click(screen.getByTestId("batch-deny"));
    expect(h.answers()).toMatchObject([{ decision: "deny" }]);
  });

  it("questions are not selected, x does and undoes it, and a lost connection stops all", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true });
    localStorage.setItem("banksman.set.inbox", "rows");
    const h = online([bash("a"), ask("q")]);
    const { user } = mount(h);
    expect(screen.queryByTestId("select-q")).toBeNull();
    const row = screen.getByTestId("row-a");
    act(() => row.focus());
    act(() => vi.advanceTimersByTime(KEY_PAUSE + 1));
    fireEvent.keyDown(row, { key: "x" });
    expect(screen.getByTestId("selection")).toBeInTheDocument();
    await user.click(screen.getByTestId("batch-open"));
    act(() => h.status({ status: "lost", at: Date.now() + 1000 }));
    expect(screen.getByTestId("batch-deny")).toBeDisabled();
    expect(screen.getByTestId("batch-approve")).toBeDisabled();
    act(() => row.focus());
    act(() => vi.advanceTimersByTime(KEY_PAUSE + 1));
    fireEvent.keyDown(row, { key: "x" });
    expect(screen.queryByTestId("selection")).toBeNull();
  });

  it("x selects a whole card, too", () => {
    vi.useFakeTimers();
    const h = online([bash("a"), bash("b")]);
    mount(h);
    const card = screen.getByTestId("card-a");
    act(() => card.focus());
    act(() => vi.advanceTimersByTime(KEY_PAUSE + 1));
    fireEvent.keyDown(card, { key: "x" });
    expect(screen.getByTestId("selection")).toHaveTextContent("1 selected");
    expect(h.answers()).toHaveLength(0);
  });

  it("what a filter hides is not decided", async () => {
    localStorage.setItem("banksman.set.inbox", "rows");
    const h = online([bash("a", "ls", { agent_name: "one" }), bash("b", "ls", { agent_name: "two" })]);
    const { user } = mount(h);
    await user.click(screen.getByTestId("select-a"));
    await user.click(screen.getByTestId("select-b"));
    await user.selectOptions(screen.getByLabelText("Agent"), "two");
    expect(screen.getByTestId("selection")).toHaveTextContent("1 selected");
    await user.click(screen.getByTestId("batch-open"));
    expect(screen.queryByTestId("batch-a")).toBeNull();
  });
});

describe("before the snapshot", () => {
  it("neither rows nor cards are chosen yet", () => {
    const h = harness();
    h.status({ status: "online" });
    const { push } = mount(h);
    push({ type: "active_processes", cursor: "c", sessions: [session(many(20))], more: false });
    expect(screen.getByTestId("inbox")).toHaveAttribute("data-view", "rows");
  });
});
