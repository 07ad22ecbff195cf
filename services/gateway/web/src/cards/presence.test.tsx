import { act, fireEvent } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { TELL_EVERY, UNATTENDED } from "@banksman/client";
import { bash } from "@banksman/client/testing";
import { harness, type Harness, online } from "../testing/harness";
import { mount } from "../testing/mount";
import { hello, session } from "@banksman/client/testing";

// What the browser says is on the screen, and of the window itself.
const screens = new Map<Element, (on: boolean) => void>();
let focused = true;
let visible = true;

function put(on: boolean, ...ids: string[]): void {
  for (const [el, say] of screens) if (ids.some((id) => el.matches(`[data-testid$="-${id}"]`))) say(on);
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date", "performance"] });
  focused = visible = true;
  screens.clear();
  vi.spyOn(document, "hasFocus").mockImplementation(() => focused);
  vi.spyOn(document, "visibilityState", "get").mockImplementation(() => (visible ? "visible" : "hidden"));
  vi.stubGlobal("IntersectionObserver", class {
    constructor(private readonly f: (e: { target: Element; isIntersecting: boolean }[]) => void) {}
    observe(el: Element): void {
      screens.set(el, (on) => this.f([{ target: el, isIntersecting: on }]));
    }
    unobserve(el: Element): void {
      screens.delete(el);
    }
    disconnect(): void {}
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

const pass = (ms: number) => act(() => vi.advanceTimersByTime(ms));
const looks = (h: Harness) => h.sent.filter((f) => f.type === "seen").map((f) => f.requests);
const [a, b] = ["default.agents.a", "default.agents.b"];

describe("what somebody has before their eyes", () => {
  it("is told at once, again every ten seconds while it stays, and not once it is gone", () => {
    const h = online([bash("a"), bash("b")]);
    mount(h);
    pass(2_000);
    expect(looks(h)).toEqual([]); // nothing is on the screen yet
    put(true, "a");
    pass(2_000);
    expect(looks(h)).toEqual([[a]]);
    pass(TELL_EVERY - 2_500);
    expect(looks(h)).toHaveLength(1);
    put(true, "b"); // what comes new does not wait for the next round
    pass(1_500);
    expect(looks(h)).toEqual([[a], [b]]);
    fireEvent.pointerMove(window);
    pass(TELL_EVERY);
    expect(looks(h).flat().filter((k) => k === a)).toHaveLength(2);
    put(false, "a", "b");
    pass(3 * TELL_EVERY);
    expect(looks(h).flat().filter((k) => k === a)).toHaveLength(2);
  });

  it.each([
    ["hidden", () => { visible = false; }, () => { visible = true; document.dispatchEvent(new Event("visibilitychange")); }],
    ["without the focus", () => { focused = false; }, () => { focused = true; window.dispatchEvent(new Event("focus")); }],
    ["left alone", () => { pass(UNATTENDED + 1_000); }, () => { fireEvent.keyDown(window, { key: "Shift" }); }],
  ])("is not told of a page that is %s, and is when somebody comes back", (_, leave, back) => {
    const h = online([bash("a")]);
    mount(h);
    leave();
    put(true, "a");
    pass(30_000);
    expect(looks(h)).toEqual([]);
    back();
    pass(2_000);
    expect(looks(h)).toEqual([[a]]);
  });

  it("is not told of a page that nobody has touched for a minute, however long the card stands there", () => {
    const h = online([bash("a")]);
    mount(h);
    put(true, "a");
    pass(10 * UNATTENDED);
    const told = looks(h).length;
    expect(told).toBeGreaterThan(1);
    expect(told).toBeLessThan(10);
  });

  it("ends with the request", () => {
    const h = online([bash("a")]);
    const view = mount(h);
    put(true, "a");
    pass(2_000);
    view.push({ type: "process_state", cursor: "c1", ...session([]), closed: [{ ...bash("a"), state: "closed", outcome: "expired" }] });
    fireEvent.pointerMove(window);
    pass(5 * TELL_EVERY);
    expect(looks(h)).toEqual([[a]]);
  });

  it("is told when the connection is back, not lost with it", () => {
    const h = harness();
    h.status({ status: "online" });
    h.push(hello({}), { type: "active_processes", cursor: "c0", sessions: [session([bash("a")])], more: false });
    mount(h);
    h.up = false;
    put(true, "a");
    pass(5_000);
    h.up = true;
    pass(2_000);
    expect(looks(h)).toEqual([[a]]);
  });

  it("counts for a row of the overview, too", () => {
    localStorage.setItem("banksman.set.inbox", "rows");
    const h = online([bash("a")]);
    mount(h);
    put(true, "a");
    pass(2_000);
    expect(looks(h)).toEqual([[a]]);
    expect(document.querySelector("[data-row]")).not.toBeNull();
  });
});
