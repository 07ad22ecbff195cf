import { useSyncExternalStore } from "react";

export type Route =
  | { at: "inbox" }
  | { at: "sessions" }
  | { at: "new" }
  | { at: "history" }
  | { at: "rules" }
  | { at: "settings" }
  | { at: "session"; key: string }
  | { at: "interaction"; key: string };

export function parseRoute(hash: string): Route {
  const path = hash.replace(/^#\/?/, "");
  if (path === "sessions" || path === "new" || path === "history" || path === "rules" || path === "settings") return { at: path };
  if (path === "terminal") return { at: "settings" }; // where its code is entered
  if (path.startsWith("s/") || path.startsWith("i/")) {
    try {
      return { at: path.startsWith("s/") ? "session" : "interaction", key: decodeURIComponent(path.slice(2)) };
    } catch {
      return { at: "inbox" };
    }
  }
  return { at: "inbox" };
}

function subscribe(f: () => void): () => void {
  window.addEventListener("hashchange", f);
  return () => window.removeEventListener("hashchange", f);
}

export function useRoute(): Route {
  return parseRoute(useSyncExternalStore(subscribe, () => location.hash));
}

export function sessionHref(key: string): string {
  return `#/s/${encodeURIComponent(key)}`;
}

export function interactionHref(key: string): string {
  return `#/i/${encodeURIComponent(key)}`;
}

const AFTER = "banksman.after"; // also known to /signin.js
const AFTER_LIMIT = 15 * 60_000; // ms; a sign-in later than that begins at the inbox

/** Notes where somebody wanted to go who has to sign in first, perhaps in another tab. */
export function keepPlace(hash: string, now: number): void {
  if (!hash.startsWith("#/") || hash === "#/") return;
  try {
    localStorage.setItem(AFTER, JSON.stringify({ hash, at: now }));
  } catch {
    // then it begins at the inbox
  }
}

/** Where to go after a sign-in; empty: nowhere in particular. It is told once. */
export function takePlace(now: number): string {
  try {
    const kept = JSON.parse(localStorage.getItem(AFTER) ?? "{}") as { hash?: unknown; at?: unknown };
    localStorage.removeItem(AFTER);
    const { hash, at } = kept;
    return typeof hash === "string" && hash.startsWith("#/") && typeof at === "number" && now - at < AFTER_LIMIT ? hash : "";
  } catch {
    return "";
  }
}
