// The words for times and outcomes. A receipt is truthful: who, when, by what,
// and never a failure where somebody refused.
import type { Decision, Item, Outcome, Summary } from "@banksman/client";
import { marked } from "./unseen";

export function clock(iso: string, now: number): string {
  const t = new Date(iso);
  if (Number.isNaN(t.getTime())) return "at an unknown time";
  const hm = `${two(t.getHours())}:${two(t.getMinutes())}`;
  const today = new Date(now);
  if (t.toDateString() === today.toDateString()) return hm;
  const day = t.toLocaleDateString(undefined, { day: "numeric", month: "short", ...(t.getFullYear() === today.getFullYear() ? {} : { year: "numeric" }) });
  return `${day}, ${hm}`;
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}

/** "20 s", "3 min", "2 h 5 min", "4 days". */
export function span(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 90) return `${s} s`;
  const m = Math.round(s / 60);
  if (m < 60) return `${m} min`;
  const h = Math.floor(m / 60);
  if (h < 48) return m % 60 === 0 ? `${h} h` : `${h} h ${m % 60} min`;
  return `${Math.round(h / 24)} days`;
}

export function waitsFor(createdAt: string, now: number): string {
  const ms = now - Date.parse(createdAt);
  return ms < 60_000 ? "just now" : `waiting for ${span(ms)}`;
}

/** What happens at the deadline, in words, by kind. */
export function atDeadline(kind: string): string {
  if (kind === "approval") return "then it expires and the tool does not run";
  if (kind === "question") return "then the agent is told that nobody answered";
  return "then it expires";
}

const past: Record<Outcome, string> = {
  allowed: "Approved",
  denied: "Denied",
  answered: "Answered",
  clarify: "Answered in words",
  dismissed: "Dismissed without an answer",
  expired: "Expired",
  cancelled: "Withdrawn by the agent",
  orphaned: "The agent is gone",
  invalid: "Refused as invalid",
};

const channels: Record<string, string> = {
  web: "web", http: "web", websocket: "web", ws: "web", cli: "terminal", slack: "Slack", mail: "mail", push: "push", rule: "",
};

/** Of what was seen to end, and how is not known. */
const ends: Record<Item["load"], string> = {
  idle: "Ended; how is being looked up",
  loading: "Ended; how is being looked up",
  failed: "Ended; how could not be looked up. It is tried again with the next connection",
  missing: "Gone: the server does not know this request any more, or you may not see it. Nobody can decide it here",
};

/** The receipt line. me: the winner is who reads this; lost: this page answered too. */
export function receiptLine(kind: string, outcome: Outcome | undefined, d: Decision | undefined, me: boolean, lost: boolean, now: number, load?: Item["load"]): string {
  if (!outcome) return ends[load ?? "idle"];
  const when = d ? clock(d.decided_at, now) : "";
  switch (outcome) {
    case "expired": return join([kind === "approval" ? "Expired, nobody decided" : "Expired, nobody answered", when]);
    case "cancelled": return join(["Withdrawn by the agent", when]);
    case "orphaned": return join(["Ended without a decision: the agent is gone", when]);
    case "invalid": return join(["Never shown for a decision: the request was invalid", when]);
    default:
  }
  let what = past[outcome];
  if (outcome === "allowed") what = d?.scope === "session" ? "Approved for this session" : d?.updated_input !== undefined ? "Approved once, edited" : "Approved once";
  if (outcome === "allowed" && d?.principal.kind === "rule") what = past[outcome];
  const via = d?.channel ? (channels[d.channel] ?? d.channel) : "";
  if (!d) return what;
  if (me) return join([`${what} by you`, when, via]);
  const who = d.principal.kind === "rule" ? d.principal.name || `the rule ${d.principal.id}` : (d.principal.name || d.principal.id || "somebody");
  if (lost) return join([`${who} was first: ${what.toLowerCase()}`, when, via]);
  return join([`${what} by ${who}`, when, via]);
}

function join(parts: string[]): string {
  return parts.filter((p) => p !== "").join(", ");
}

export function isGood(o: Outcome | undefined): boolean {
  return o === "allowed" || o === "answered";
}

/** Who asks, for the line below the headline. */
export function origin(s: Summary, title: string | undefined): string[] {
  const agent = s.agent_name || s.owner;
  return [agent, title || marked(s.session_id), s.project_id ?? ""].filter((x, i, all) => x !== "" && all.indexOf(x) === i);
}
