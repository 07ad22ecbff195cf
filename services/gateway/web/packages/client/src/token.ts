import type { KeyValue } from "./drafts.ts";

/**
 * The session token in a storage that is handed in, usually the page's own: a
 * cookie would go to every other port of the machine as well.
 */
export class LoginToken {
  constructor(
    private readonly storage: KeyValue,
    private readonly name = "banksman.session",
  ) {}

  /** The token, null where there is none or it has expired. */
  get = (): string | null => {
    try {
      const raw = this.storage.getItem(this.name);
      if (!raw) return null;
      const s = JSON.parse(raw) as { token?: unknown; expires_at?: unknown };
      if (typeof s.token !== "string") return null;
      if (typeof s.expires_at === "string" && Date.parse(s.expires_at) < Date.now()) return null;
      return s.token;
    } catch {
      return null;
    }
  };

  save(s: { token: string; expires_at: string }): void {
    this.storage.setItem(this.name, JSON.stringify({ token: s.token, expires_at: s.expires_at }));
  }

  drop(): void {
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
  return decodeURIComponent(m[1]!);
}
