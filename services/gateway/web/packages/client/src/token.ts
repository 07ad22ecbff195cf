import type { KeyValue } from "./drafts.ts";

/**
 * The session token in a storage that is handed in, usually the page's own: a
 * cookie would go to every other port of the machine as well.
 */
export class LoginToken {
  private here: string | undefined; // what the storage did not take

  constructor(
    private readonly storage: Pick<KeyValue, "getItem" | "setItem" | "removeItem">,
    private readonly name = "banksman.session",
  ) {}

  /** The token, null where there is none. Whether it has expired the server says, by its own clock. */
  get = (): string | null => {
    if (this.here !== undefined) return this.here;
    try {
      const raw = this.storage.getItem(this.name);
      if (!raw) return null;
      const s = JSON.parse(raw) as { token?: unknown };
      return typeof s.token === "string" ? s.token : null;
    } catch {
      return null;
    }
  };

  /** A full storage keeps it as long as the page only: the link that brought it is used up. */
  save(s: { token: string; expires_at: string }): void {
    this.here = undefined;
    try {
      this.storage.setItem(this.name, JSON.stringify({ token: s.token, expires_at: s.expires_at }));
    } catch {
      this.here = s.token;
    }
  }

  drop(): void {
    this.here = undefined;
    try {
      this.storage.removeItem(this.name);
    } catch {
      // nothing was stored then
    }
  }
}

/** Takes the one-use login token out of the page's address, so that it stays in no history. */
export function takeLoginToken(): string | null {
  const m = /^#login=(.+)$/.exec(location.hash);
  if (!m) return null;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    return decodeURIComponent(m[1]!);
  } catch {
    return m[1]!; // the server says that it is none
  }
}
