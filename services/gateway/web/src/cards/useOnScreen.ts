import { type RefObject, useEffect } from "react";
import { useCards } from "../ui/context";

/** Counts an element as the card of a request: what it shows is kept, and while it waits and is on the screen somebody may be looking. */
export function useOnScreen(ref: RefObject<Element | null>, key: string, waits: boolean): void {
  const { client, presence } = useCards();
  useEffect(() => client.hold(key), [client, key]);
  useEffect(() => (waits && ref.current ? presence.watch(ref.current, key) : undefined), [presence, ref, key, waits]);
}
