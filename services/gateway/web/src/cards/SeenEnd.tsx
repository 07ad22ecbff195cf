import { useCallback, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore } from "react";
import { rootOf } from "../ui/place";

function narrow(): MediaQueryList | null {
  return typeof matchMedia === "function" ? matchMedia("(max-width: 47.99rem)") : null;
}

/** Whether the phone layout is on. */
export function useNarrow(): boolean {
  const [query] = useState(narrow);
  const subscribe = useCallback((f: () => void) => {
    query?.addEventListener("change", f);
    return () => query?.removeEventListener("change", f);
  }, [query]);
  return useSyncExternalStore(subscribe, () => query?.matches ?? false);
}

/** Whether the place is on screen: inside its scroller, and not behind the card's floating bar. */
function inSight(el: Element): boolean {
  const y = el.getBoundingClientRect().bottom;
  const dock = el.closest("[data-scroll]")?.getBoundingClientRect();
  const bar = el.closest("[data-card]")?.querySelector("[data-bar]")?.getBoundingClientRect();
  // The bar stands below the place where it does not float.
  const floor = Math.min(window.innerHeight, dock?.bottom ?? Infinity, bar && bar.height > 0 ? bar.top : Infinity);
  return y >= (dock?.top ?? 0) && y <= floor;
}

/** Reports once its place, the end of what must be read, has been on screen. */
export function SeenEnd({ onSeen }: { onSeen: () => void }) {
  const ref = useRef<HTMLDivElement>(null);
  const report = useRef(onSeen);
  report.current = onSeen;
  // At once where it is plain to see, so that nobody waits for an observer.
  useLayoutEffect(() => {
    const el = ref.current;
    // In another page's box only the observer knows what that page cuts off.
    if (!el || typeof IntersectionObserver === "undefined" || (inSight(el) && rootOf(el) === document)) report.current();
  }, []);
  useEffect(() => {
    const el = ref.current;
    if (!el || typeof IntersectionObserver === "undefined") return;
    // Scrolling inside of a shadow root is not heard outside.
    const places = new Set<EventTarget>([document, rootOf(el)]);
    const stop = () => {
      o.disconnect();
      for (const p of places) p.removeEventListener("scroll", look, true);
      window.removeEventListener("resize", look);
    };
    const embedded = rootOf(el) !== document;
    let uncut = !embedded;
    const look = () => {
      if (!uncut || !inSight(el)) return;
      report.current();
      stop();
    };
    const o = new IntersectionObserver((entries) => {
      if (embedded) uncut = entries.at(-1)?.isIntersecting === true;
      if (entries.some((e) => e.isIntersecting)) look();
    });
    o.observe(el);
    for (const p of places) p.addEventListener("scroll", look, { capture: true, passive: true });
    window.addEventListener("resize", look);
    return stop;
  }, []);
  return <div ref={ref} aria-hidden className="-mt-3! h-px" />;
}
