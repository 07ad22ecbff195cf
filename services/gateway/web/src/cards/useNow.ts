import { useEffect, useState } from "react";

const MINUTE = 60_000;

/** Time until the shown words change: seconds only near a deadline, none for far ones. */
export function nextTick(now: number, deadline: number | undefined): number {
  const left = deadline === undefined ? Infinity : deadline - now;
  if (left > 0 && left <= 90_000) return 1000;
  // Wake in time for the last minute and a half.
  return left > 90_000 && left < 90_000 + MINUTE ? left - 90_000 : MINUTE;
}

/** The server's time, renewed as often as the words for the deadline need it. */
export function useNow(offset: number, deadline?: string): number {
  const [now, setNow] = useState(() => Date.now());
  const at = deadline === undefined ? undefined : Date.parse(deadline);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    // What was waited for before may have left this far behind.
    setNow((old) => (Math.abs(Date.now() - old) < 500 ? old : Date.now()));
    const tick = () => {
      const t = Date.now();
      setNow(t);
      timer = setTimeout(tick, nextTick(t + offset, at));
    };
    timer = setTimeout(tick, nextTick(Date.now() + offset, at));
    return () => clearTimeout(timer);
  }, [offset, at]);
  return now + offset;
}
