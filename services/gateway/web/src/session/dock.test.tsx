import { act, fireEvent, screen } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { bash, session } from "@banksman/client/testing";
import { online } from "../testing/harness";
import { mount } from "../testing/mount";

const S1 = "default.agents.s1";
let seeEnd: () => void = () => undefined;

function screenOf(phone: boolean): void {
  vi.stubGlobal("matchMedia", (query: string) => ({ matches: phone && query.includes("max-width"), addEventListener: () => undefined, removeEventListener: () => undefined }));
  vi.stubGlobal("IntersectionObserver", class {
    constructor(private readonly f: (e: { target: Element; isIntersecting: boolean }[]) => void) {}
    observe(el: Element): void {
      if (el.classList.contains("h-px")) seeEnd = () => {
        vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockReturnValue({ top: 0, bottom: 0 } as DOMRect);
        this.f([{ target: el, isIntersecting: true }]);
      };
    }
    unobserve(): void {}
    disconnect(): void {}
  });
  vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockReturnValue({ top: 5000, bottom: 5000 } as DOMRect);
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"] });
  location.hash = `#/s/${S1}`;
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

const waits = (...ids: string[]) => ({ type: "process_state" as const, cursor: `c-${ids}`, ...session(ids.map((id) => bash(id))) });

describe("what waits in a session, on a phone", () => {
  it("is a sheet: pulled down the conversation has the screen and nothing can be decided, pulled up all is as it was", () => {
    screenOf(true);
    const h = online([bash("a")]);
    mount(h);
    expect(screen.getByTestId("approve")).toBeDisabled(); // its end was not seen
    fireEvent.click(screen.getByTestId("dock-lower"));
    expect(screen.getByTestId("card-a")).not.toBeVisible();
    expect(screen.queryByRole("button", { name: /Approve|Deny/ })).toBeNull();
    expect(screen.getByTestId("dock")).toHaveTextContent(h.app.client.item("default.agents.a")!.summary.headline);

    fireEvent.click(screen.getByTestId("dock-raise"));
    expect(screen.getByTestId("card-a")).toBeVisible();
    // A second tap at the same place must not press what has come up there.
    expect(screen.getByTestId("card-a").closest("[inert]")).not.toBeNull();
    act(() => vi.advanceTimersByTime(700));
    expect(screen.getByTestId("card-a").closest("[inert]")).toBeNull();
    expect(screen.getByTestId("approve")).toBeDisabled();
    act(() => seeEnd());
    expect(screen.getByTestId("approve")).toBeEnabled();
    // Having been read it stays so.
    fireEvent.click(screen.getByTestId("dock-lower"));
    fireEvent.click(screen.getByTestId("dock-raise"));
    act(() => vi.advanceTimersByTime(700));
    fireEvent.click(screen.getByTestId("approve"));
    expect(h.answers()).toHaveLength(1);
  });

  it("comes up by itself where nobody is busy, and stays a line where somebody writes", () => {
    screenOf(true);
    const h = online([]);
    const view = mount(h);
    view.push(waits("a"));
    expect(screen.getByTestId("card-a")).toBeVisible();
    view.push({ ...waits(), closed: [{ ...bash("a"), state: "closed", outcome: "expired" }] });
    fireEvent.focus(screen.getByTestId("message-input"));
    fireEvent.change(screen.getByTestId("message-input"), { target: { value: "and then" } });
    view.push(waits("b", "c"));
    expect(screen.getByTestId("card-b")).not.toBeVisible();
    expect(screen.getByTestId("dock-raise")).toHaveTextContent("Look at them");
    expect(screen.getByTestId("dock")).toHaveTextContent("and 1 more");
    expect(screen.getByTestId("message-input")).toBeVisible();
  });

  it("is pulled by its handle, too", () => {
    screenOf(true);
    mount(online([bash("a")]));
    fireEvent.pointerDown(screen.getByTestId("dock-lower"), { clientY: 100 });
    fireEvent.pointerUp(screen.getByTestId("dock-lower"), { clientY: 180 });
    expect(screen.getByTestId("card-a")).not.toBeVisible();
    fireEvent.pointerDown(screen.getByTestId("dock-raise"), { clientY: 500 });
    fireEvent.pointerUp(screen.getByTestId("dock-raise"), { clientY: 300 });
    expect(screen.getByTestId("card-a")).toBeVisible();
  });

  it("is no sheet on a wide screen", () => {
    screenOf(false);
    mount(online([bash("a")]));
    expect(screen.queryByTestId("dock-lower")).toBeNull();
    expect(screen.getByTestId("card-a")).toBeVisible();
  });
});
