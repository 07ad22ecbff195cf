/** Milliseconds to wait before attempt n (from 0): full jitter below a growing cap. */
export function backoff(attempt: number, random: () => number = Math.random): number {
  const cap = Math.min(15_000, 500 * 2 ** Math.min(attempt, 10));
  return Math.round(random() * cap);
}

/** How far the server's clock is ahead of ours, in milliseconds. */
export function clockOffset(serverTime: string, now: number): number {
  const server = Date.parse(serverTime);
  return Number.isNaN(server) ? 0 : server - now;
}

export function newId(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  // Pages from plain http on another host have no randomUUID.
  const b = crypto.getRandomValues(new Uint8Array(16));
  b[6] = (b[6]! & 0x0f) | 0x40;
  b[8] = (b[8]! & 0x3f) | 0x80;
  const hex = Array.from(b, (x) => x.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
