// The session token lives in this page's own storage: a cookie would go to
// every other port of the machine as well.
const KEY = "banksman.session";

export function loadToken(): string | null {
  try {
    const raw = localStorage.getItem(KEY);
    if (!raw) return null;
    const s = JSON.parse(raw) as { token?: unknown; expires_at?: unknown };
    if (typeof s.token !== "string") return null;
    if (typeof s.expires_at === "string" && Date.parse(s.expires_at) < Date.now()) return null;
    return s.token;
  } catch {
    return null;
  }
}

export function saveToken(s: { token: string; expires_at: string }): void {
  localStorage.setItem(KEY, JSON.stringify({ token: s.token, expires_at: s.expires_at }));
}

export function dropToken(): void {
  localStorage.removeItem(KEY);
}

/** Takes the one-use login token out of the address, so that it stays in no history. */
export function takeLoginToken(): string | null {
  const m = /^#login=(.+)$/.exec(location.hash);
  if (!m) return null;
  history.replaceState(null, "", location.pathname + location.search);
  return decodeURIComponent(m[1]!);
}
