// The page's own files: kept for when the server cannot be reached, and compared
// with what the server has whenever it is reached again.
import type { Client } from "@banksman/client";
import { useSyncExternalStore } from "react";

/** Keeps the files of the page, so that it opens without the server and says so. */
export function keepShell(): void {
  if ("serviceWorker" in navigator) navigator.serviceWorker.register("/sw.js").catch(() => undefined); // it then needs the server
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
