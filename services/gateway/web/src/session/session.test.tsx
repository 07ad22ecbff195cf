import { act, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import type { Event, InFrame } from "@banksman/client";
import { ask, at, bash, closed, form, hello, processState, system, unknown } from "@banksman/client/testing";
import { type Harness, online } from "../testing/harness";
import { mount } from "../testing/mount";

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

  it("shows text, tool calls with input as text and results, and the receipt in its place", () => {
    const a = bash("a");
    const { push } = open([a]);
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

  it("D1-46: images and documents go along as base64", async () => {
    const { h, user } = open();
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

describe("start form", () => {
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
