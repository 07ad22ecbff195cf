// Times and states of rules, in words.
import type { Rule } from "@banksman/client";
import { clock } from "../cards/words";

export interface Lasting {
  text: string;
  seconds: number;
}

/** How long a rule can last, from the shortest; max in seconds. */
export function lasting(now: number, max: number): Lasting[] {
  const list: Lasting[] = [
    { text: "1 hour", seconds: 3600 }, { text: "8 hours", seconds: 8 * 3600 }, { text: "1 day", seconds: 24 * 3600 },
    { text: "7 days", seconds: 7 * 24 * 3600 }, { text: "30 days", seconds: 30 * 24 * 3600 },
  ];
  const evening = new Date(now);
  evening.setHours(18, 0, 0, 0);
  const until = Math.floor((evening.getTime() - now) / 1000);
  if (until >= 600) list.push({ text: "until 18:00 today", seconds: until });
  return list.filter((l) => l.seconds <= max).sort((a, b) => a.seconds - b.seconds);
}

export const outcomes: Record<string, string> = {
  allowed: "was approved", denied: "was denied", dismissed: "was dismissed", expired: "expired", cancelled: "was withdrawn", orphaned: "its agent was gone", invalid: "was refused",
};

/** Until when, or how a rule ended. */
export function standing(r: Rule, now: number): string {
  switch (r.state) {
    case "revoked": return `Revoked${r.revoked_by ? ` by ${r.revoked_by.name || r.revoked_by.id}` : ""}${r.revoked_at ? `, ${clock(r.revoked_at, now)}` : ""}`;
    case "expired": return `Ended ${clock(r.expires_at, now)}`;
    case "used_up": return "Used up";
    default: return `Until ${clock(r.expires_at, now)}${soon(r, now)}`;
  }
}

/** A rule that ends within the hour says so. */
function soon(r: Rule, now: number): string {
  const left = Math.ceil((Date.parse(r.expires_at) - now) / 60_000);
  return left > 0 && left <= 60 ? `, in ${left === 1 ? "one minute" : `${left} minutes`}` : "";
}

export function usage(r: Rule, now: number): string {
  const n = r.max_uses ? `${r.uses === 0 ? "never used, " : ""}${Math.max(0, r.max_uses - r.uses)} of ${r.max_uses} uses left` : r.uses === 1 ? "used once" : r.uses === 0 ? "never used" : `used ${r.uses} times`;
  return r.last_used ? `${n}, last ${clock(r.last_used, now)}` : n;
}
