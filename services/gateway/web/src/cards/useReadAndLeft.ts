import { type RefObject, useEffect, useRef } from "react";

/** On the screen for so long somebody can have read it. Milliseconds. */
export const READ = 1_500;

/**
 * Calls done once somebody had the time to read what stands there, on a page that is
 * visible and has the focus, and then turned away from the page: nothing vanishes
 * under anybody's eyes.
 */
export function useReadAndLeft(ref: RefObject<Element | null>, on: boolean, done: () => void): void {
  const call = useRef(done);
  call.current = done;
  useEffect(() => {
    const el = ref.current;
    if (!on || !el || typeof IntersectionObserver === "undefined") return;
    let shown = false;
    let read = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ended = new AbortController();
    const look = () => {
      const there = shown && document.visibilityState === "visible" && document.hasFocus();
      if (!there) {
        clearTimeout(timer);
        timer = undefined;
        if (read) call.current();
      } else timer ??= setTimeout(() => { read = true; }, READ);
    };
    const o = new IntersectionObserver((entries) => {
      shown = entries.at(-1)?.isIntersecting === true;
      look();
    });
    o.observe(el);
    for (const type of ["blur", "focus"]) window.addEventListener(type, look, { signal: ended.signal });
    document.addEventListener("visibilitychange", look, { signal: ended.signal });
    return () => {
      clearTimeout(timer);
      o.disconnect();
      ended.abort();
      if (read) call.current();
    };
  }, [ref, on]);
}
