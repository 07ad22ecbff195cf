// Where a part of the page stands: in the document, or in the shadow root of an
// element that another page embeds.
import { type RefObject, useEffect, useLayoutEffect, useRef } from "react";

export function rootOf(el: Element | null): Document | ShadowRoot {
  const root = el?.getRootNode();
  return root instanceof ShadowRoot || root instanceof Document ? root : document;
}

/** What has the focus there. */
export function focusedIn(el: Element | null): Element | null {
  return rootOf(el).activeElement;
}

/** While a card's controls are dead, the card itself keeps the focus that one of them had: a dead one loses it to nobody. */
export function useKeptFocus(card: RefObject<HTMLElement | null>, dead: boolean): void {
  useLayoutEffect(() => {
    const el = card.current;
    const focused = focusedIn(el);
    if (dead && el && focused !== el && el.contains(focused) && focused?.matches(":disabled")) el.focus({ preventScroll: true });
  }, [card, dead]);
}

/** What ends while something in it has the focus has the focus itself, whatever becomes of that. */
export function useFocusOver(el: RefObject<HTMLElement | null>, over: boolean): void {
  const was = useRef(over);
  const had = useRef(false);
  // Asked while the old content still stands: afterwards its focus is lost.
  if (over && !was.current) had.current ||= el.current?.contains(focusedIn(el.current)) ?? false;
  useLayoutEffect(() => {
    if (over && !was.current && had.current) el.current?.focus({ preventScroll: true });
    was.current = over;
    had.current = false;
  });
}

/** Whether the component that asks still stands on the page. */
export function useHere(): RefObject<boolean> {
  const here = useRef(true);
  useEffect(() => {
    here.current = true;
    return () => { here.current = false; };
  }, []);
  return here;
}
