import { useSyncExternalStore } from "react";
import { type Action, reduce } from "./reducer";
import { initialState, type State } from "./state";

export interface Store {
  get(): State;
  dispatch(a: Action): void;
  subscribe(f: () => void): () => void;
}

export function createStore(start: State = initialState): Store {
  let state = start;
  const listeners = new Set<() => void>();
  return {
    get: () => state,
    dispatch(a) {
      const next = reduce(state, a);
      if (next === state) return;
      state = next;
      for (const f of [...listeners]) f();
    },
    subscribe(f) {
      listeners.add(f);
      return () => listeners.delete(f);
    },
  };
}

export function useStore(store: Store): State {
  return useSyncExternalStore(store.subscribe, store.get);
}
