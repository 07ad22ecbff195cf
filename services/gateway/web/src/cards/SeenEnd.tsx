import { useEffect, useLayoutEffect, useRef, useSyncExternalStore } from "react";

function narrow(): MediaQueryList | null {
  return typeof matchMedia === "function" ? matchMedia("(max-width: 47.99rem)") : null;
}

/** Whether the phone layout is on. */
export function useNarrow(): boolean {
  return useSyncExternalStore(
    (f) => {
      const query = narrow();
      query?.addEventListener("change", f);
      return () => query?.removeEventListener("change", f);
    },
    () => narrow()?.matches ?? false,
  );
}

/** Reports once its place, the end of what must be read, has been on screen. */
export function SeenEnd({ onSeen }: { onSeen: () => void }) {
  const ref = useRef<HTMLDivElement>(null);
  const report = useRef(onSeen);
  report.current = onSeen;
  // At once where it is plain to see, so that nobody waits for an observer.
  useLayoutEffect(() => {
    const el = ref.current;
    if (!el || typeof IntersectionObserver === "undefined") {
      report.current();
      return;
    }
    const y = el.getBoundingClientRect().bottom;
    const dock = el.closest("[data-scroll]")?.getBoundingClientRect();
    if (y >= (dock?.top ?? 0) && y <= Math.min(window.innerHeight, dock?.bottom ?? Infinity)) report.current();
  }, []);
  useEffect(() => {
    const el = ref.current;
    if (!el || typeof IntersectionObserver === "undefined") return;
    const o = new IntersectionObserver((entries) => {
      if (entries.some((e) => e.isIntersecting)) {
        report.current();
        o.disconnect();
      }
    });
    o.observe(el);
    return () => o.disconnect();
  }, []);
  return <div ref={ref} aria-hidden className="-mt-3! h-px" />;
}
