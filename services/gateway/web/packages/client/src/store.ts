import { type Action, reduce } from "./reducer.ts";
import { initialState, type State } from "./state.ts";

/** One state that only the reducer changes. */
export interface Store {
  get(): State;
  dispatch(a: Action): void;
  /** Calls f after each change until the returned function is called. */
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
