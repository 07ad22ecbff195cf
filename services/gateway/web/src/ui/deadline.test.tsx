import { act, screen } from "@testing-library/react";
import { bash } from "@banksman/client/testing";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { online } from "../testing/harness";
import { mount } from "../testing/mount";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date"] }));
afterEach(() => void vi.useRealTimers());

it("a deadline that is days away is spoken of when it comes near", () => {
  const h = online([bash("a", "make deploy", { expires_at: new Date(Date.now() + 49 * 3600_000).toISOString() })]);
  mount(h);
  act(() => void vi.advanceTimersByTime(48 * 3600_000));
  expect(screen.getByTestId("live-region")).not.toHaveTextContent(/left:/);
  act(() => void vi.advanceTimersByTime(56 * 60_000));
  expect(screen.getByTestId("live-region")).toHaveTextContent(/^5 min left:/);
});
