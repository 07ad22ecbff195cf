import { type RefObject, useEffect, useLayoutEffect, useReducer, useRef } from "react";
import { focusedIn } from "../ui/place";

/**
 * The order in which keys are drawn. While somebody points at the list or works in
 * it (held), what is new comes at the end, so that nothing slides away under them.
 */
export function useOrder(sorted: string[], by: string, list: RefObject<HTMLElement | null>): { keys: string[]; held: boolean } {
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
    document.addEventListener("visibilitychange", again);
    return () => {
      el.removeEventListener("pointerenter", enter);
      el.removeEventListener("pointerleave", leave);
      el.removeEventListener("focusout", out);
      document.removeEventListener("visibilitychange", again);
    };
  }, [list]);
  const inside = pointed.current || (list.current?.contains(focusedIn(list.current)) ?? false) || touches();
  const order = drawn.current.by === by && inside ? append(drawn.current.keys, sorted) : sorted;
  useLayoutEffect(() => {
    drawn.current = { by, keys: order };
  });
  // Nobody works in a page that is hidden.
  return { keys: order, held: inside && document.visibilityState === "visible" };
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
