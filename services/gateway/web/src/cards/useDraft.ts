import { useCallback, useSyncExternalStore } from "react";
import type { Draft } from "@banksman/client";
import { useCards } from "../ui/context";

/** A draft as it is now in every tab of this person, and what changes some of it. */
export function useDraft(key: string): [Draft, (part: Partial<Draft>) => void] {
  const { drafts } = useCards();
  const draft = useSyncExternalStore(useCallback((f) => drafts.watch(key, f), [drafts, key]), () => drafts.load(key));
  return [draft, useCallback((part) => drafts.change(key, part), [drafts, key])];
}
