import { store, stored } from "../store/settings";

export type Theme = "system" | "light" | "dark";

const KEY = "banksman.theme";

export function loadTheme(): Theme {
  const t = stored(KEY);
  return t === "light" || t === "dark" ? t : "system";
}

export function applyTheme(t: Theme): void {
  if (t === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = t;
}

export function saveTheme(t: Theme): void {
  store(KEY, t === "system" ? "" : t);
  applyTheme(t);
}
