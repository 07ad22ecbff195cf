// The page's own files: kept for when the server cannot be reached, and compared
// with what the server has whenever it is reached again.
import type { Client, Gateway } from "@banksman/client";
import { useSyncExternalStore } from "react";
import { setting } from "./settings";

/** Keeps the files of the page, so that it opens without the server and says so. */
export function keepShell(): void {
  if (!("serviceWorker" in navigator)) return;
  navigator.serviceWorker.register("/sw.js").catch(() => undefined); // it then needs the server
  // A notification was pressed: it leads to its request, in this tab.
  navigator.serviceWorker.addEventListener("message", (e: MessageEvent<{ type?: string; hash?: string }>) => {
    if (e.data.type === "open" && e.data.hash?.startsWith("#/")) location.hash = e.data.hash;
  });
}

/** Has notifications go on after a new sign-in, where they were wanted in this browser. */
export function keepPushes(api: Pick<Gateway, "call">): void {
  if (setting("push") !== "") void import("./push").then((p) => p.again(api)).catch(() => undefined);
}

let newer = false;
const listeners = new Set<() => void>();

/** Whether the server has another version of this page than the one that is open. */
export function useNewer(): boolean {
  return useSyncExternalStore(
    (f) => {
      listeners.add(f);
      return () => void listeners.delete(f);
    },
    () => newer,
  );
}

/** Looks after each connection; returns what ends that. */
export function watchShell(client: Client, get: () => Promise<string> = page): () => void {
  return client.on("frame", (f) => {
    if (f.type === "hello") void get().then((html) => note(isNewer(html, entry())), () => undefined);
  });
}

function note(is: boolean): void {
  if (is === newer) return;
  newer = is;
  for (const f of listeners) f();
}

async function page(): Promise<string> {
  const res = await fetch("/", { cache: "no-store" });
  return res.ok ? res.text() : "";
}

/** The script that this page was begun with; its name has a hash of its content. */
function entry(): string {
  return document.querySelector('script[type="module"][src^="/assets/"]')?.getAttribute("src") ?? "";
}

export function isNewer(html: string, mine: string): boolean {
  return mine !== "" && html.includes('src="/assets/') && !html.includes(`"${mine}"`);
}
