import { act, renderHook } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { useNow } from "./useNow";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("a new deadline is counted from now, not from the last minute's tick", () => {
  const start = Date.now();
  const { result, rerender } = renderHook(({ at }: { at?: number }) => useNow(0, at === undefined ? undefined : new Date(at).toISOString()), { initialProps: {} });
  act(() => void vi.advanceTimersByTime(40_000));
  expect(result.current).toBe(start);
  rerender({ at: start + 50_000 });
  expect(result.current).toBe(start + 40_000);
});
