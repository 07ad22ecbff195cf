import { act, fireEvent, screen } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ask, bash, processState, write } from "@banksman/client/testing";
import { type Harness, online } from "../testing/harness";
import { mount } from "../testing/mount";
import { KEY_PAUSE, setKeysOn } from "./keys";

const card = (id: string) => screen.getByTestId(`card-${id}`);

// Exact times: the pause is counted on this clock.
beforeEach(() => void vi.useFakeTimers({ toFake: ["performance", "Date", "setTimeout", "clearTimeout", "setInterval", "clearInterval", "requestAnimationFrame"] }));
afterEach(() => void vi.useRealTimers());

const wait = (ms: number) => act(() => vi.advanceTimersByTime(ms));
const press = (key: string, init: KeyboardEventInit = {}) => fireEvent.keyDown(document.activeElement ?? document.body, { key, ...init });
const decisions = (h: Harness) => h.answers().map((a) => a.decision ?? (a.answers ? "answers" : a.action));

describe("keys", () => {
  it("y approves and n denies with focus in the card, after the pause", () => {
    const h = online([bash("a")]);
    mount(h);
    act(() => card("a").focus());
    wait(KEY_PAUSE);
    press("y");
    expect(decisions(h)).toEqual(["allow"]);
    const other = online([bash("b")]);
    mount(other);
    act(() => card("b").focus());
    wait(KEY_PAUSE);
    press("n");
    expect(decisions(other)).toEqual(["deny"]);
  });

  it("B-60: no key acts within the pause, and each key starts it anew", () => {
    const h = online([bash("a")]);
    mount(h);
    act(() => card("a").focus());
    wait(KEY_PAUSE - 1);
    press("y");
    wait(KEY_PAUSE - 1);
    press("y");
    wait(KEY_PAUSE - 1);
    press("n");
    expect(decisions(h)).toEqual([]);
    wait(KEY_PAUSE);
    press("n");
    expect(decisions(h)).toEqual(["deny"]);
  });

  it("B-60: keys without focus in a card decide nothing", () => {
    const h = online([bash("a")]);
    mount(h);
    wait(KEY_PAUSE * 3);
    for (const key of ["y", "n", "Enter", " ", "Escape"]) press(key);
    expect(decisions(h)).toEqual([]);
  });

  it("B-60: in a text field every key is text; Enter in the reason denies and never approves", () => {
    const h = online([bash("a")]);
    mount(h);
    fireEvent.click(screen.getByTestId("deny-reason"));
    const field = screen.getByTestId("deny-reason-text");
    act(() => field.focus());
    wait(KEY_PAUSE * 2);
    for (const key of "yes, any reason 123") press(key);
    expect(decisions(h)).toEqual([]);
    press("Enter");
    expect(decisions(h)).toEqual(["deny"]);
  });

  it("B-60: typing in the message input while a request arrives moves no focus and decides nothing", () => {
    const h = online([]);
    location.hash = "#/s/default.agents.s1";
    const { push } = mount(h);
    const input = screen.getByTestId<HTMLTextAreaElement>("message-input");
    act(() => input.focus());
    for (let i = 0; i < 20; i++) {
      if (i === 7) push(processState([bash("a")]));
      press("y");
      wait(60);
    }
    expect(document.activeElement).toBe(input);
    expect(card("a")).toBeInTheDocument();
    press("Enter"); // a message may not go out either while something waits
    expect(h.sent.filter((f) => f.type === "send_message")).toEqual([]);
    expect(decisions(h)).toEqual([]);
    act(() => input.blur());
    expect(screen.queryByTestId("message-input")).toBeNull();
  });

  it("a new card never takes the focus, and Approve is never focused by itself", () => {
    const h = online([]);
    const { push } = mount(h);
    const before = document.activeElement;
    push(processState([bash("a")]));
    wait(1000);
    expect(document.activeElement).toBe(before);
    expect(document.activeElement).not.toBe(screen.getByTestId("approve"));
  });

  it("Escape never answers", () => {
    const h = online([bash("a"), ask("q")]);
    mount(h);
    for (const id of ["a", "q"]) {
      act(() => card(id).focus());
      wait(KEY_PAUSE);
      press("Escape");
    }
    expect(decisions(h)).toEqual([]);
  });

  it("keys with modifiers, repeats and compositions do nothing", () => {
    const h = online([bash("a")]);
    mount(h);
    act(() => card("a").focus());
    for (const init of [{ ctrlKey: true }, { metaKey: true }, { altKey: true }, { repeat: true }, { isComposing: true }]) {
      wait(KEY_PAUSE);
      press("y", init);
    }
    expect(decisions(h)).toEqual([]);
  });

  it("y respects the lock of text that was not seen whole", () => {
    const h = online([write("w", 100)]);
    mount(h);
    act(() => card("w").focus());
    wait(KEY_PAUSE);
    press("y");
    expect(decisions(h)).toEqual([]);
  });

  it("single keys can be switched off", () => {
    const h = online([bash("a")]);
    mount(h);
    setKeysOn(false);
    act(() => card("a").focus());
    wait(KEY_PAUSE);
    press("y");
    expect(decisions(h)).toEqual([]);
  });

  it("digits choose options, Ctrl+Enter submits, j and k move", () => {
    const h = online([ask("q"), bash("a", "ls", { created_at: new Date(Date.now() + 1000).toISOString() })]);
    mount(h);
    act(() => card("q").focus());
    wait(KEY_PAUSE);
    press("2");
    expect(screen.getByTestId<HTMLInputElement>("q-db-opt-1").checked).toBe(true);
    press("j");
    expect(document.activeElement).toBe(card("a"));
    press("k");
    expect(document.activeElement).toBe(card("q"));
    wait(KEY_PAUSE);
    press("Enter", { ctrlKey: true });
    expect(h.answers()[0]!.answers).toEqual([{ question_id: "db", values: ["lite"] }]);
  });
});
