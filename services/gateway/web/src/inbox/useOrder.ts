import { type RefObject, useEffect, useLayoutEffect, useReducer, useRef } from "react";
import { focusedIn } from "../ui/place";

/**
 * The order in which keys are drawn. While somebody points at the list or works in
 * it, what is new comes at the end, so that nothing slides away under them.
 */
export function useOrder(sorted: string[], by: string, list: RefObject<HTMLElement | null>): string[] {
  const drawn = useRef<{ by: string; keys: string[] }>({ by, keys: [] });
  const pointed = useRef(false);
  const [, again] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const el = list.current;
    if (!el) return;
    const set = (on: boolean) => () => {
      pointed.current = on;
      if (!on) again();
    };
    const enter = set(true);
    const leave = set(false);
    const out = () => requestAnimationFrame(again);
    el.addEventListener("pointerenter", enter);
    el.addEventListener("pointerleave", leave);
    el.addEventListener("focusout", out);
    return () => {
      el.removeEventListener("pointerenter", enter);
      el.removeEventListener("pointerleave", leave);
      el.removeEventListener("focusout", out);
    };
  }, [list]);
  const inside = pointed.current || (list.current?.contains(focusedIn(list.current)) ?? false) || touches();
  const order = drawn.current.by === by && inside ? append(drawn.current.keys, sorted) : sorted;
  useLayoutEffect(() => {
    drawn.current = { by, keys: order };
  });
  return order;
}

function append(old: string[], now: string[]): string[] {
  const have = new Set(now);
  const kept = old.filter((k) => have.has(k));
  const before = new Set(kept);
  return [...kept, ...now.filter((k) => !before.has(k))];
}

/** Where nothing tells where a finger will come down. */
function touches(): boolean {
  return typeof matchMedia === "function" && matchMedia("(hover: none)").matches;
}
