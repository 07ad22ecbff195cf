import { useEffect, useState } from "react";
import { pendingCount, pendingKeys } from "@banksman/client";
import { useAppState, useCards } from "./context";
import { soon } from "./soon";

/**
 * Speaks politely, outside of the cards, so that it outlives each of them. Under a modal
 * dialog nothing is heard: each has one of its own inside, for what is said from then on.
 */
export function LiveRegion({ inside = false }: { inside?: boolean }) {
  const { spoken } = useAppState();
  const last = spoken.at(-1)?.n ?? 0;
  const [heard, setHeard] = useState(last);
  const [before] = useState(inside ? last : 0);
  useEffect(() => {
    const timer = setTimeout(() => setHeard(last), LINGER);
    return () => clearTimeout(timer);
  }, [last]);
  // Each is a node of its own: what is said at the same time is all heard, and an
  // equal text twice is spoken twice.
  return (
    <div data-testid={inside ? "live-region-inside" : "live-region"} role="status" aria-live="polite" aria-atomic="false" aria-relevant="additions" className="sr-only">
      {spoken.filter((x) => x.n > before && (x.n > heard || x.n === last)).map((x) => <p key={x.n}>{x.text}</p>)}
    </div>
  );
}

const LINGER = 1000; // ms that a text stands before another may take its place

/** How many wait, in the tab's title, its icon and the app's badge. */
export function useAttention(): void {
  const state = useAppState();
  const n = pendingCount(state);
  useEffect(() => soon(() => {
    document.title = n > 0 ? `(${n}) Banksman` : "Banksman";
    document.querySelector('link[rel="icon"]')?.setAttribute("href", n > 0 ? "/favicon-dot.svg" : "/favicon.svg");
    const nav = navigator as Navigator & { setAppBadge?: (n: number) => Promise<void>; clearAppBadge?: () => Promise<void> };
    void (n > 0 ? nav.setAppBadge?.(n) : nav.clearAppBadge?.())?.catch(() => undefined);
  }), [n]);
}

const SPOKEN_AT = [5 * 60_000, 60_000, 20_000]; // ms before a deadline
const FAR = 24 * 3600_000; // ms; what is farther away is looked at again then

/** Says that time runs out, three times and no more. */
export function useDeadlineWords(): void {
  const app = useCards();
  const state = useAppState();
  const due = pendingKeys(state).map((k) => `${k} ${state.items[k]!.summary.expires_at ?? ""}`).filter((x) => !x.endsWith(" ")).join("\n");
  const { offset } = state;
  const [day, setDay] = useState(0);
  useEffect(() => {
    let far = false;
    const timers: ReturnType<typeof setTimeout>[] = [];
    for (const line of due === "" ? [] : due.split("\n")) {
      const cut = line.lastIndexOf(" ");
      const key = line.slice(0, cut);
      const at = Date.parse(line.slice(cut + 1)) - offset;
      for (const before of SPOKEN_AT) {
        const wait = at - before - Date.now();
        far ||= wait > FAR;
        if (wait <= 0 || wait > FAR) continue;
        timers.push(setTimeout(() => {
          const item = app.store.get().items[key];
          if (item && !item.closed) app.store.dispatch({ kind: "say", text: `${before >= 60_000 ? `${before / 60_000} min` : `${before / 1000} seconds`} left: ${item.summary.headline}.` });
        }, wait));
      }
    }
    if (far) timers.push(setTimeout(() => setDay((n) => n + 1), FAR));
    return () => timers.forEach(clearTimeout);
  }, [due, offset, app, day]);
}
