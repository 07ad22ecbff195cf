import type { State } from "@banksman/client";
import { createContext, useContext } from "react";
import type { App } from "../store/app";
import type { Cards } from "../store/cards";
import { useStore } from "../store/store";

export const AppContext = createContext<App | null>(null);
export const CardsContext = createContext<Cards | null>(null);

/** The whole app, for what only its own page has. */
export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("no app around this component");
  return app;
}

export function useCards(): Cards {
  const cards = useContext(CardsContext);
  if (!cards) throw new Error("nothing around this component brings its cards");
  return cards;
}

export function useAppState(): State {
  return useStore(useCards().store);
}
