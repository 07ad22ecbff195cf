import { act, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import type { Event, InFrame } from "@banksman/client";
import { ask, at, bash, closed, form, hello, processState, system, unknown } from "@banksman/client/testing";
import { type Harness, online } from "../testing/harness";
import { mount } from "../testing/mount";
import { takePlace } from "../ui/route";

const KEY = "default.agents.s1";
const events = (...list: Event[]): InFrame => ({ type: "event", session_id: "s1", session_key: KEY, cursor: "e1", events: list });
const ev = (type: string, data: unknown): Event => ({ type, at: at(0), data });
const lastOf = (h: Harness, type: string) => h.sent.filter((f) => f.type === type).at(-1);

function open(pending: Parameters<typeof online>[0] = []) {
  location.hash = `#/s/${KEY}`;
  const h = online(pending);
  return { h, ...mount(h) };
}

describe("session list", () => {
  it("D1-32: a session that waits carries a mark that does not say for what, gone on resolve and on death", () => {
    const a = bash("a");
    const h = online([a]);
    const { push } = mount(h);
    const entry = () => screen.getByTestId(`session-${KEY}`);
    expect(entry()).toHaveAttribute("data-waiting", "true");
    expect(entry()).toHaveAttribute("title", "waiting for your answer");
    push(processState([], { closed: [closed(a, "allowed")] }));
    expect(entry()).toHaveAttribute("data-waiting", "false");
    expect(entry()).not.toHaveAttribute("title");
    push(processState([ask("q")]));
    expect(entry()).toHaveAttribute("data-waiting", "true");
    push(processState([], { state: "dead", closed: [closed(ask("q"), "orphaned", { principal: system })] }));
    expect(entry()).toHaveAttribute("data-waiting", "false");
  });
});

describe("session view", () => {
  it.each([["approval", bash("a")], ["question", ask("a")], ["form", form("a")], ["unknown kind", unknown("a")]] as const)("D1-33: a pending %s takes the place of the message input", (_name, s) => {
    const { push } = open([s]);
    expect(screen.queryByTestId("message-input")).toBeNull();
    expect(screen.getByTestId("card-a")).toBeInTheDocument();
    push(processState([], { closed: [closed(s, "dismissed")] }));
    expect(screen.getByTestId("message-input")).toBeInTheDocument();
  });

  it("D3-07 D3-08: while anything waits it says so instead of working, and works again only when nothing does", () => {
    const { push } = open([bash("a"), bash("b")]);
    expect(screen.getByTestId("session-status")).toHaveTextContent("Waiting for you");
    push(processState([bash("b")], { closed: [closed(bash("a"), "allowed")] }));
    expect(screen.getByTestId("session-status")).toHaveTextContent("Waiting for you");
    push(processState([], { closed: [closed(bash("b"), "allowed")] }));
    expect(screen.getByTestId("session-status")).toHaveTextContent("Working");
  });

  it("B-74: after an interrupt it is idle", () => {
    const { push } = open([bash("a")]);
    push(processState([], { state: "user_turn", closed: [closed(bash("a"), "cancelled", { principal: system })] }));
    expect(screen.queryByTestId("session-status")).toBeNull();
  });

  it("subscribes, again after a reconnect from where it was, and leaves with the screen", () => {
    const { h, push, unmount } = open();
    expect(lastOf(h, "subscribe")).toEqual({ type: "subscribe", session_id: KEY, ref: expect.any(String) });
    push(events(ev("text", { role: "assistant", text: "hi" })));
    push(hello({ recovered: true }));
    expect(lastOf(h, "subscribe")).toEqual({ type: "subscribe", session_id: KEY, ref: expect.any(String), from: "e1" });
    unmount();
    expect(lastOf(h, "unsubscribe")).toEqual({ type: "unsubscribe", session_id: KEY });
  });

  it("shows text, tool calls with input as text and results, and the receipt in its place", async () => {
    const a = bash("a");
    const { push, user } = open([a]);
    push(events(
      ev("text", { role: "user", text: "go" }),
      ev("text_delta", { block_id: "b", text: "I will" }),
      ev("tool_call_end", { tool_call_id: "t", tool_name: "Zap", input: '{"n": 9007199254740993}' }),
      ev("tool_result", { tool_call_id: "t", content: "<b>done</b>" }),
      ev("interaction_request", { ...a, interaction_id: "a" }),
    ));
    push(processState([], { closed: [closed(a, "denied")] }));
    push(events(ev("text", { role: "assistant", text: "after" })));
    const t = screen.getByTestId("transcript");
    await user.click(within(t).getByText("Zap"));
    await within(t).findByLabelText("Result");
    for (const text of ["go", "I will", "Zap", "9007199254740993", "<b>done</b>", "Denied by you"]) expect(t).toHaveTextContent(text);
    expect(t.querySelector("b")).toBeNull();
    expect(within(t).getAllByTestId("receipt-a")).toHaveLength(1);
    expect(t.textContent!.indexOf("Denied by you")).toBeLessThan(t.textContent!.indexOf("after"));
  });

  it("a receipt is shown even where the conversation lacks the ask", () => {
    const a = bash("a");
    const { push } = open([a]);
    push(processState([], { closed: [closed(a, "denied")] }));
    expect(within(screen.getByTestId("transcript")).getByTestId("receipt-a")).toHaveTextContent("Denied by you");
  });

  it("a call is told by its command or path as the server shows it, never by parsing its input; opened it shows all of it and its result", async () => {
    const { push, user } = open();
    push(events(
      ev("tool_call_end", { tool_call_id: "t", tool_name: "Bash", input: '{"command":"ls -l"}', blocks: [{ label: "Command", form: "command", text: "ls -l" }] }),
      ev("tool_result", { tool_call_id: "t", content: "total 0" }),
      ev("tool_call_end", { tool_call_id: "u", tool_name: "Edit", input: "{}", blocks: [{ label: "File", form: "path", text: "/srv/x.go" }, { label: "Change", form: "diff", old: "a", new: "b", lines: 1 }] }),
    ));
    const [bash, edit] = [...screen.getByTestId("transcript").querySelectorAll("details")];
    expect(bash!.querySelector("summary")).toHaveTextContent(/^Bashls -l$/);
    expect(edit!.querySelector("summary")).toHaveTextContent("Edit/srv/x.go");
    await user.click(bash!.querySelector("summary")!);
    expect(await within(bash!).findByLabelText("Result")).toHaveTextContent("total 0");
    await user.click(edit!.querySelector("summary")!);
    expect(await within(edit!).findByRole("group", { name: "Change" })).toBeInTheDocument();
  });

  it("D3-08 B-74: a call turns only while the agent works: not while it waits for a person, nor after the turn", () => {
    const { push } = open();
    push(events(ev("tool_call_end", { tool_call_id: "t", tool_name: "Bash", input: "{}" })));
    const runs = () => within(screen.getByTestId("transcript")).queryByRole("img", { name: "runs" });
    expect(runs()).toBeInTheDocument();
    push(processState([bash("a")]));
    expect(runs()).toBeNull();
    push(processState([], { closed: [closed(bash("a"), "cancelled", { principal: system })] }));
    expect(runs()).toBeInTheDocument();
    push(events(ev("done", { reason: "interrupted" })));
    expect(runs()).toBeNull();
    expect(screen.getByTestId("transcript")).toHaveTextContent("no result");
  });

  it("D1-46: what was sent along is told in the conversation", () => {
    const { push } = open();
    push(events(ev("text", { role: "user", text: "look", attachments: [{ kind: "image", media_type: "image/png", name: "shop.png" }, { kind: "document", media_type: "application/pdf" }] })));
    const list = screen.getByRole("list", { name: "Attachments" });
    expect(within(list).getByRole("img", { name: "Image" })).toBeInTheDocument();
    expect(list).toHaveTextContent("shop.png");
    expect(list).toHaveTextContent("application/pdf");
  });

  it("B-44: what a sub-agent says and does stands below its task", () => {
    const { push } = open();
    push(events(
      ev("tool_call_end", { tool_call_id: "p", tool_name: "Task", input: '{"description":"look around"}', blocks: [{ label: "Task", form: "text", text: "look around" }] }),
      ev("text", { role: "assistant", text: "I am deep", parent_tool_call_id: "p" }),
      ev("text", { role: "assistant", text: "I am not" }),
    ));
    const sub = screen.getByRole("region", { name: "Sub-agent" });
    expect(sub).toHaveTextContent("Sub-agent: look around");
    expect(sub).toHaveTextContent("I am deep");
    expect(sub).not.toHaveTextContent("I am not");
  });

  it("B-14: what waits is told once: the card, not a line above it as well", () => {
    const a = bash("a");
    const { push } = open([a]);
    push(events(ev("interaction_request", { ...a, interaction_id: "a" })));
    expect(screen.getByTestId("transcript")).not.toHaveTextContent(a.headline);
    push(events(ev("text", { role: "assistant", text: "meanwhile" })));
    expect(screen.getByTestId("transcript")).toHaveTextContent(a.headline);
  });

  it("sends a message with Enter, keeps the text until the receipt, and the command id for a repeat", async () => {
    const { h, user, push } = open();
    await user.type(screen.getByTestId("message-input"), "hello{Enter}");
    const first = lastOf(h, "send_message")!;
    expect(first).toMatchObject({ session_id: KEY, text: "hello" });
    push({ type: "receipt", ref: first.ref, status: "unavailable", error: "no worker" });
    expect(await screen.findByText("no worker")).toBeInTheDocument();
    expect(screen.getByTestId<HTMLTextAreaElement>("message-input").value).toBe("hello");
    await user.click(screen.getByTestId("message-send"));
    const second = lastOf(h, "send_message")!;
    expect(second.command_id).toBe(first.command_id);
    expect(second.ref).not.toBe(first.ref);
    push({ type: "receipt", ref: second.ref, status: "accepted" });
    await waitFor(() => expect(screen.getByTestId<HTMLTextAreaElement>("message-input").value).toBe(""));
  });

  it("another file beside the same words is another message: a repeat of the first would be taken for it", async () => {
    const { h, user, push } = open();
    await waitFor(() => expect(screen.getByTestId("attach")).toBeEnabled());
    await user.type(screen.getByTestId("message-input"), "look{Enter}");
    const first = lastOf(h, "send_message")!;
    push({ type: "receipt", ref: first.ref, status: "unavailable", error: "no worker" });
    await screen.findByText("no worker");
    await user.upload(screen.getByTestId("attach"), new File(["PNG"], "a.png", { type: "image/png" }));
    await user.click(await screen.findByRole("button", { name: "Remove a.png" }));
    await user.upload(screen.getByTestId("attach"), new File(["PNG2"], "b.png", { type: "image/png" }));
    await screen.findByText("b.png");
    await user.click(screen.getByTestId("message-send"));
    const second = lastOf(h, "send_message")!;
    expect(second.attachments?.map((f) => f.name)).toEqual(["b.png"]);
    expect(second.command_id).not.toBe(first.command_id);
  });

  it("D1-40: what is typed on while a message is on its way is the next message", async () => {
    const { h, user, push } = open();
    await user.type(screen.getByTestId("message-input"), "hello{Enter}");
    await user.type(screen.getByTestId("message-input"), " and then the tests");
    push({ type: "receipt", ref: lastOf(h, "send_message")!.ref, status: "accepted" });
    await waitFor(() => expect(screen.getByTestId<HTMLTextAreaElement>("message-input").value).toBe("and then the tests"));
    expect(h.app.drafts.load(`message:${KEY}`).text).toBe("and then the tests");
    await user.click(screen.getByTestId("message-send"));
    expect(lastOf(h, "send_message")).toMatchObject({ text: "and then the tests" });
  });

  it("D1-40: a receipt that comes late takes nothing that was typed since the page was left", async () => {
    const { h, user, push } = open();
    await user.type(screen.getByTestId("message-input"), "hello{Enter}");
    act(() => { location.hash = "#/"; });
    await screen.findByTestId("inbox");
    act(() => { location.hash = `#/s/${KEY}`; });
    const again = await screen.findByTestId<HTMLTextAreaElement>("message-input");
    await user.clear(again);
    await user.type(again, "another thing");
    push({ type: "receipt", ref: lastOf(h, "send_message")!.ref, status: "accepted" });
    await act(async () => { await Promise.resolve(); });
    await waitFor(() => expect(again.value).toBe("another thing"));
    expect(h.app.drafts.load(`message:${KEY}`).text).toBe("another thing");
  });

  it("D1-46: images and documents go along as base64", async () => {
    const { h, user } = open();
    await waitFor(() => expect(screen.getByTestId("attach")).toBeEnabled());
    await user.upload(screen.getByTestId("attach"), [new File(["PNG"], "a.png", { type: "image/png" }), new File(["%PDF"], "b.pdf", { type: "application/pdf" })]);
    await screen.findByText("b.pdf");
    await user.click(screen.getByTestId("message-send"));
    expect(lastOf(h, "send_message")!.attachments).toEqual([
      { kind: "image", media_type: "image/png", name: "a.png", data_b64: btoa("PNG") },
      { kind: "document", media_type: "application/pdf", name: "b.pdf", data_b64: btoa("%PDF") },
    ]);
  });

  it("interrupts, stops after a second press, and changes the mode", async () => {
    const { h, user } = open();
    await user.click(screen.getByTestId("session-more"));
    await user.click(screen.getByTestId("interrupt"));
    expect(lastOf(h, "interrupt")).toMatchObject({ session_id: KEY });
    await user.click(screen.getByTestId("stop"));
    expect(lastOf(h, "stop_session")).toBeUndefined();
    await user.click(screen.getByTestId("stop-sure"));
    expect(lastOf(h, "stop_session")).toMatchObject({ session_id: KEY });
    await user.selectOptions(screen.getByTestId("session-mode"), "plan");
    expect(lastOf(h, "set_mode")).toMatchObject({ session_id: KEY, mode: "plan" });
  });
});

describe("modes that let more run unasked", () => {
  it("are asked about first, and left by another choice or by hand", async () => {
    const { h, user } = open();
    const mode = () => screen.getByTestId<HTMLSelectElement>("session-mode");
    await user.selectOptions(mode(), "bypassPermissions");
    expect(screen.getByTestId("mode-ask")).toHaveTextContent("Every tool runs unasked");
    expect(mode().value).toBe("bypassPermissions");
    await user.click(screen.getByRole("button", { name: "Leave it as it is" }));
    expect(mode().value).toBe("default");
    await user.selectOptions(mode(), "acceptEdits");
    expect(lastOf(h, "set_mode")).toBeUndefined();
    await user.selectOptions(mode(), "plan");
    expect(screen.queryByTestId("mode-ask")).toBeNull();
    expect(lastOf(h, "set_mode")).toMatchObject({ mode: "plan" });
    await user.selectOptions(mode(), "bypassPermissions");
    await user.click(screen.getByTestId("mode-sure"));
    expect(lastOf(h, "set_mode")).toMatchObject({ session_id: KEY, mode: "bypassPermissions" });
    expect(screen.queryByTestId("mode-ask")).toBeNull();
  });
});

describe("a mode that takes the passkey", () => {
  const words = "this mode approves in advance: step_up is needed: use your passkey and try again (/signin.html#proof)";
  const follow = async (user: ReturnType<typeof mount>["user"]) => {
    const link = await screen.findByTestId("proof");
    expect(link).toHaveAttribute("href", "/signin.html#proof");
    expect(screen.queryByText(/step_up/)).toBeNull();
    link.addEventListener("click", (e) => e.preventDefault()); // jsdom goes nowhere
    await user.click(link);
    return takePlace(Date.now());
  };
  it("leads to it from the session, and back", async () => {
    const { h, user, push } = open();
    await user.selectOptions(screen.getByTestId("session-mode"), "acceptEdits");
    await user.click(screen.getByTestId("mode-sure"));
    push({ type: "receipt", ref: lastOf(h, "set_mode")!.ref, status: "forbidden", error: words, fields: [{ field: "assurance", problem: "step_up is needed" }] });
    expect(await follow(user)).toBe(`#/s/${KEY}`);
  });

  it("leads to it from the form of a new session, and back", async () => {
    location.hash = "#/new";
    const h = online();
    const { user, push } = mount(h);
    await user.type(screen.getByTestId("start-prompt"), "fix it");
    await user.selectOptions(screen.getByTestId("start-mode"), "bypassPermissions");
    await user.click(screen.getByTestId("start-submit"));
    push({ type: "receipt", ref: lastOf(h, "start_session")!.ref, status: "forbidden", error: words, fields: [{ field: "assurance", problem: "step_up is needed" }] });
    expect(await follow(user)).toBe("#/new");
    expect(screen.getByTestId<HTMLTextAreaElement>("start-prompt").value).toBe("fix it");
  });
});

describe("a session that is not there, or not any more", () => {
  const start = async () => {
    location.hash = "#/new";
    const h = online();
    const m = mount(h);
    await m.user.type(screen.getByTestId("start-prompt"), "fix it");
    await m.user.type(screen.getByTestId("start-cwd"), "/srv/none");
    await m.user.selectOptions(screen.getByTestId("start-mode"), "plan");
    await m.user.click(screen.getByTestId("start-submit"));
    m.push({ type: "receipt", ref: lastOf(h, "start_session")!.ref, status: "accepted", session_id: "default.agents.new" });
    await waitFor(() => expect(location.hash).toBe("#/s/default.agents.new"));
    return { h, ...m };
  };

  it("one that nobody took yet waits for a worker, and says so instead of loading", async () => {
    const { push } = await start();
    expect(await screen.findByTestId("session-queued")).toHaveTextContent("Waiting for a worker to take it");
    expect(screen.queryByText(/Loading/)).toBeNull();
    push(processState([], { session_key: "default.agents.new", session_id: "new", title: "fix it", state: "starting" }));
    expect(screen.queryByTestId("session-queued")).toBeNull();
    expect(screen.getByTestId("session-status")).toHaveTextContent("Starting");
  });

  it("one that did not start says why and leads back to its form with all that was written", async () => {
    const { push, user } = await start();
    push(processState([], { session_key: "default.agents.new", session_id: "new", title: "fix it", cwd: "/srv/none", mode: "plan", state: "dead", error: "cwd: the directory /srv/none does not exist" }));
    push(Object.assign(events(ev("text", { role: "user", text: "fix it" }), ev("error", { message: "cwd: the directory /srv/none does not exist" }), ev("done", { reason: "error" })), { session_key: "default.agents.new" }));
    expect(within(screen.getByTestId("transcript")).getAllByText(/does not exist/)).toHaveLength(1);
    expect(screen.queryByText(/Loading/)).toBeNull();
    await user.click(screen.getByTestId("start-again"));
    expect(screen.getByTestId<HTMLTextAreaElement>("start-prompt").value).toBe("fix it");
    expect(screen.getByTestId<HTMLInputElement>("start-cwd").value).toBe("/srv/none");
    expect(screen.getByTestId<HTMLSelectElement>("start-mode").value).toBe("plan");
  });

  it("one that nobody here started is unknown, not loading", () => {
    location.hash = "#/s/default.agents.nobody";
    mount(online());
    expect(screen.getByTestId("session-missing")).toBeInTheDocument();
    expect(screen.queryByText(/Loading/)).toBeNull();
  });

  it("B-74: a double press interrupts one turn, and not the next as well", async () => {
    const { h, push, user } = open();
    const sent = () => h.sent.filter((f) => f.type === "interrupt");
    await user.dblClick(screen.getByTestId("interrupt"));
    expect(sent()).toHaveLength(1);
    // Without a word of the worker another press adds nothing.
    fireEvent.click(screen.getByTestId("interrupt"), { detail: 1 });
    expect(sent()).toHaveLength(1);
    push({ type: "receipt", ref: sent()[0]!.ref, status: "accepted" });
    await waitFor(() => {
      fireEvent.click(screen.getByTestId("interrupt"), { detail: 1 });
      expect(sent()).toHaveLength(2);
    });
    fireEvent.click(screen.getByTestId("interrupt"), { detail: 2 });
    expect(sent()).toHaveLength(2);
  });

  it("interrupts only what runs", () => {
    const { push } = open();
    expect(screen.getByTestId("interrupt")).toBeEnabled();
    push(processState([], { state: "user_turn" }));
    expect(screen.getByTestId("interrupt")).toBeDisabled();
    // A sub-agent in the background asks after the turn has ended.
    push(processState([bash("a")], { state: "user_turn" }));
    expect(screen.getByTestId("interrupt")).toBeEnabled();
  });
});

describe("start form", () => {
  it("notices a worker that comes, and starts nothing without one", async () => {
    location.hash = "#/new";
    const h = online();
    h.push(hello({ runtimes: [], server_time: new Date().toISOString() }));
    h.push({ type: "active_processes", cursor: "c0", sessions: [], more: false });
    const { user } = mount(h);
    await user.type(screen.getByTestId("start-prompt"), "fix it");
    expect(await screen.findByTestId("no-worker")).toHaveTextContent("no session can start now");
    expect(screen.getByTestId("start-submit")).toBeDisabled();
    h.api.replies["GET /api/services"] = { runtimes: ["claude"], notifier: "silent" };
    await waitFor(() => expect(screen.getByTestId("start-submit")).toBeEnabled(), { timeout: 15_000 });
    expect(screen.queryByTestId("no-worker")).toBeNull();
  });

  it("what is written there survives a reload", async () => {
    location.hash = "#/new";
    const { user, unmount } = mount(online());
    await user.type(screen.getByTestId("start-prompt"), "fix it");
    await user.type(screen.getByTestId("start-cwd"), "/srv/y");
    await user.selectOptions(screen.getByTestId("start-mode"), "plan");
    unmount();
    mount(online());
    expect(screen.getByTestId<HTMLTextAreaElement>("start-prompt").value).toBe("fix it");
    expect(screen.getByTestId<HTMLInputElement>("start-cwd").value).toBe("/srv/y");
    expect(screen.getByTestId<HTMLSelectElement>("start-mode").value).toBe("plan");
  });

  it("offers the modes with bypassPermissions last and marked, and the runtimes of the workers", () => {
    location.hash = "#/new";
    mount(online());
    const options = [...screen.getByTestId<HTMLSelectElement>("start-mode").options];
    expect(options.map((o) => o.value)).toEqual(["default", "acceptEdits", "plan", "bypassPermissions"]);
    expect(options[3]!.textContent).toContain("⚠");
    fireEvent.change(screen.getByTestId("start-mode"), { target: { value: "bypassPermissions" } });
    expect(screen.getByText(/Every tool runs unasked/)).toBeInTheDocument();
    expect([...screen.getByTestId<HTMLSelectElement>("start-runtime").options].map((o) => o.value)).toEqual(["claude", "demo"]);
  });

  it("starts a session and opens it", async () => {
    location.hash = "#/new";
    const h = online();
    const { user, push } = mount(h);
    expect(screen.getByTestId("start-submit")).toBeDisabled();
    await user.type(screen.getByTestId("start-prompt"), "fix it");
    await user.type(screen.getByTestId("start-cwd"), "/srv/x");
    await user.selectOptions(screen.getByTestId("start-runtime"), "demo");
    await user.click(screen.getByTestId("start-submit"));
    const f = lastOf(h, "start_session")!;
    expect(f).toMatchObject({ prompt: "fix it", cwd: "/srv/x", mode: "default", runtime: "demo" });
    expect(f.command_id).toBeTruthy();
    push({ type: "receipt", ref: f.ref, status: "accepted", session_id: "default.agents.new" });
    await waitFor(() => expect(location.hash).toBe("#/s/default.agents.new"));
  });

  it("a session that starts late does not take anybody away from where they are by then", async () => {
    location.hash = "#/new";
    const h = online();
    const { user, push } = mount(h);
    await user.type(screen.getByTestId("start-prompt"), "fix it");
    await user.click(screen.getByTestId("start-submit"));
    location.hash = "#/";
    await screen.findByTestId("inbox");
    push({ type: "receipt", ref: lastOf(h, "start_session")!.ref, status: "accepted", session_id: "default.agents.new" });
    await waitFor(() => expect(h.app.drafts.load("started:default.agents.new").text).toBe("fix it"));
    expect(location.hash).toBe("#/");
  });

  it("D1-40: a start that is taken late takes nothing of the next prompt", async () => {
    location.hash = "#/new";
    const h = online();
    const { user, push } = mount(h);
    await user.type(screen.getByTestId("start-prompt"), "fix it");
    await user.click(screen.getByTestId("start-submit"));
    location.hash = "#/";
    await screen.findByTestId("inbox");
    location.hash = "#/new";
    const again = await screen.findByTestId<HTMLTextAreaElement>("start-prompt");
    await user.clear(again);
    await user.type(again, "the next one");
    push({ type: "receipt", ref: lastOf(h, "start_session")!.ref, status: "accepted", session_id: "default.agents.new" });
    await waitFor(() => expect(h.app.drafts.load("started:default.agents.new").text).toBe("fix it"));
    expect(again.value).toBe("the next one");
  });

  it("a refusal stays on the form with its reason", async () => {
    location.hash = "#/new";
    const h = online();
    const { user, push } = mount(h);
    await user.type(screen.getByTestId("start-prompt"), "fix it");
    await user.click(screen.getByTestId("start-submit"));
    push({ type: "receipt", ref: lastOf(h, "start_session")!.ref, status: "invalid", fields: [{ field: "cwd", problem: "does not exist" }] });
    expect(await screen.findByText(/cwd does not exist/)).toBeInTheDocument();
    act(() => undefined);
    expect(location.hash).toBe("#/new");
  });
});
