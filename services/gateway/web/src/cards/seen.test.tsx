import { act, fireEvent, screen } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { bash } from "@banksman/client/testing";
import { online } from "../testing/harness";
import { mount } from "../testing/mount";
import { KEY_PAUSE } from "./keys";

// A text whose end is below the fold, on a screen of the given width.
let seeEnd: () => void;
// It is inside the window, but behind the bar with the buttons.
let behindTheBar: () => void;

function below(phone: boolean): void {
  vi.stubGlobal("matchMedia", (query: string) => ({ matches: phone && query.includes("max-width"), addEventListener: () => undefined, removeEventListener: () => undefined }));
  vi.stubGlobal("IntersectionObserver", class {
    constructor(private readonly f: (e: { target: Element; isIntersecting: boolean }[]) => void) {}
    observe(target: Element): void {
      if (target.matches("[data-card]")) return; // the whole card, for who is looking
      behindTheBar = () => this.f([{ target, isIntersecting: true }]);
      seeEnd = () => {
        vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockReturnValue({ top: 0, bottom: 0 } as DOMRect);
        this.f([{ target, isIntersecting: true }]);
      };
    }
    unobserve(): void {}
    disconnect(): void {}
  });
  vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockReturnValue({ top: 5000, bottom: 5000 } as DOMRect);
}

beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

describe("text below the fold", () => {
  it("on a phone, where the buttons float, Approve stays locked until the end was on screen", () => {
    below(true);
    mount(online([bash("a")]));
    expect(screen.getByTestId("approve")).toBeDisabled();
    expect(screen.getByTestId("deny")).toBeEnabled();
    act(() => behindTheBar());
    expect(screen.getByTestId("approve")).toBeDisabled();
    act(() => seeEnd());
    expect(screen.getByTestId("approve")).toBeEnabled();
  });

  it("on a wide screen the button stands below the text, but the key first shows the end", () => {
    below(false);
    const shown = vi.fn();
    Element.prototype.scrollIntoView = shown;
    const h = online([bash("a")]);
    mount(h);
    expect(screen.getByTestId("approve")).toBeEnabled();
    act(() => screen.getByTestId("card-a").focus());
    vi.advanceTimersByTime(KEY_PAUSE);
    fireEvent.keyDown(document.activeElement!, { key: "y" });
    expect(shown).toHaveBeenCalled();
    expect(h.answers()).toEqual([]);
    act(() => seeEnd());
    vi.advanceTimersByTime(KEY_PAUSE);
    fireEvent.keyDown(document.activeElement!, { key: "y" });
    expect(h.answers()).toHaveLength(1);
  });
});
