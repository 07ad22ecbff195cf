// On a phone the bar with Deny and Approve floats above the text. Two of them on
// one screen would be a trap: only the card in the middle of the screen, or the
// one with the focus, has a live one.
import { type RefObject, useEffect, useState } from "react";
import { focusedIn } from "../ui/place";

interface Entry {
  el: HTMLElement;
  set: (live: boolean) => void;
}

const entries = new Set<Entry>();
let planned = 0;

function choose(): void {
  planned = 0;
  const middle = window.innerHeight * 0.45;
  let best: Entry | undefined;
  let least = Infinity;
  for (const e of entries) {
    const box = e.el.getBoundingClientRect();
    if (box.bottom < 0 || box.top > window.innerHeight) continue;
    const inside = box.top <= middle && box.bottom >= middle;
    const off = e.el.contains(focusedIn(e.el)) ? -1 : inside ? 0 : Math.min(Math.abs(box.top - middle), Math.abs(box.bottom - middle)) + 1;
    if (off < least) {
      least = off;
      best = e;
    }
  }
  if (!best) return; // none is on the screen
  for (const e of entries) e.set(e === best);
}

function plan(): void {
  planned ||= requestAnimationFrame(choose);
}

/** Whether this card's bar is the one that is live. */
export function useSole(ref: RefObject<HTMLElement | null>, floats: boolean): boolean {
  const [live, setLive] = useState(true);
  useEffect(() => {
    const el = ref.current?.closest<HTMLElement>("[data-card]");
    if (!floats || !el) return setLive(true);
    const entry: Entry = { el, set: setLive };
    if (entries.size === 0) listen(true);
    entries.add(entry);
    choose();
    return () => {
      entries.delete(entry);
      if (entries.size === 0) listen(false);
      else plan();
    };
  }, [ref, floats]);
  return live;
}

function listen(on: boolean): void {
  const change = on ? "addEventListener" : "removeEventListener";
  document[change]("scroll", plan, { capture: true, passive: true } as AddEventListenerOptions);
  document[change]("focusin", plan);
  window[change]("resize", plan);
}
