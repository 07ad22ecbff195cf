import { type RefObject, useEffect } from "react";
import { useCards } from "../ui/context";

/** Counts an element as the card of a request that waits: while it is on the screen somebody may be looking. */
export function useOnScreen(ref: RefObject<Element | null>, key: string, waits: boolean): void {
  const { presence } = useCards();
  useEffect(() => (waits && ref.current ? presence.watch(ref.current, key) : undefined), [presence, ref, key, waits]);
}
