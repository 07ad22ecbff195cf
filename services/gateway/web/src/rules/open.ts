// Which rule is being made. The sheet stands apart from the card: that one may be
// decided, and gone, while the sheet still has something to say.
import type { Summary } from "@banksman/client";
import { useSyncExternalStore } from "react";

export interface Start {
  scope: "session" | "project" | "owner";
  /** Seconds. */
  lasts: number;
  /** Absent: allow. */
  effect?: "allow" | "deny";
}

export interface Making {
  summary: Summary;
  start: Start;
  /** What gets the focus back. */
  from: HTMLElement | null;
}

let making: Making | undefined;
const listeners = new Set<() => void>();

export function openSheet(m: Making | undefined): void {
  making = m;
  for (const f of listeners) f();
}

function subscribe(f: () => void): () => void {
  listeners.add(f);
  return () => listeners.delete(f);
}

export function useMaking(): Making | undefined {
  return useSyncExternalStore(subscribe, () => making);
}
