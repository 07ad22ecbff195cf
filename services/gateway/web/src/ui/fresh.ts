// Hands are quick: what has just come under a pointer takes no press that was meant
// for what stood there before. Keys have their own pause, in cards/keys.ts.
import { useEffect, useRef, useState } from "react";

/** How long that is, in milliseconds. */
export const FRESH = 600;

/** Whether what stands there has only just come; another what begins anew. */
export function useFresh(what: string): boolean {
  const [known, setKnown] = useState<string>();
  useEffect(() => {
    const timer = setTimeout(() => setKnown(what), FRESH);
    return () => clearTimeout(timer);
  }, [what]);
  return known !== what;
}

/** Those that stand below each other and move when one of them goes, or comes while there is room. */
export function useMoved(keys: readonly string[]): boolean {
  const drawn = useRef<readonly string[]>(keys);
  const moves = useRef(0);
  const left = drawn.current.some((k) => !keys.includes(k));
  if (left || (keys.length > drawn.current.length && keys.length <= ROOM)) moves.current++;
  drawn.current = keys;
  return useFresh(String(moves.current));
}

/** More than so many fill their place: one more moves none of them, and a flood cannot keep people out. */
const ROOM = 3;
