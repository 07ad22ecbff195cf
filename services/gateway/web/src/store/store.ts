import type { State, Store } from "@banksman/client";
import { useSyncExternalStore } from "react";

export function useStore(store: Store): State {
  return useSyncExternalStore(store.subscribe, store.get);
}
