import type { State } from "@banksman/client";
import { createContext, useContext } from "react";
import type { App } from "../store/app";
import { useStore } from "../store/store";

export const AppContext = createContext<App | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("no app around this component");
  return app;
}

export function useAppState(): State {
  return useStore(useApp().store);
}
