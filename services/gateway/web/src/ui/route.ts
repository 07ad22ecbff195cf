import { useSyncExternalStore } from "react";

export type Route =
  | { at: "inbox" }
  | { at: "sessions" }
  | { at: "new" }
  | { at: "history" }
  | { at: "rules" }
  | { at: "session"; key: string }
  | { at: "interaction"; key: string };

export function parseRoute(hash: string): Route {
  const path = hash.replace(/^#\/?/, "");
  if (path === "sessions" || path === "new" || path === "history" || path === "rules") return { at: path };
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
