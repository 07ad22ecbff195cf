// The sign-in that this page goes by. One in another tab does not change it under the
// page: as long as the page shows one person, it acts as that person.
import type { KeyValue } from "@banksman/client";

/** The part of a storage that a sign-in needs, as it was when it was first read. */
export class Pinned implements Pick<KeyValue, "getItem" | "setItem" | "removeItem"> {
  private readonly seen = new Map<string, string | null>();

  constructor(private readonly storage: Pick<KeyValue, "getItem" | "setItem" | "removeItem">) {}

  getItem(name: string): string | null {
    if (!this.seen.has(name)) this.seen.set(name, this.storage.getItem(name));
    return this.seen.get(name)!;
  }

  setItem(name: string, value: string): void {
    this.storage.setItem(name, value);
    this.seen.set(name, value);
  }

  /** Removes what this page has read: what somebody stored since is theirs. */
  removeItem(name: string): void {
    if (!this.replaced()) this.storage.removeItem(name);
    this.seen.set(name, null);
  }

  /** Whether another tab has stored something else meanwhile; that it has removed something ends here by the server's word. */
  replaced(): boolean {
    return [...this.seen].some(([name, mine]) => {
      const now = this.storage.getItem(name);
      return now !== null && now !== mine;
    });
  }

  /** Calls f when another tab has replaced something, until the returned function is called. */
  watch(f: () => void): () => void {
    const ended = new AbortController();
    const look = () => {
      if (this.replaced()) f();
    };
    window.addEventListener("storage", look, { signal: ended.signal });
    // A page that the browser had put away hears of nothing.
    window.addEventListener("pageshow", look, { signal: ended.signal });
    look();
    return () => ended.abort();
  }
}
