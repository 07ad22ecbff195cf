// Made-up rules for the gallery.
import type { NewRule, Rule, RuleCase, RulePreview } from "@banksman/client";
import { ada, me } from "@banksman/client/testing";

const iso = (s: number) => new Date(Date.now() + s * 1000).toISOString();

function rule(over: Partial<Rule>): Rule {
  return {
    id: "r1", effect: "allow", title: "git status", text: "", maker: me, created_at: iso(-4000), expires_at: iso(20_000), uses: 3, max_uses: 50, last_used: iso(-300), state: "active", may_revoke: true,
    match: { scope: "project", tenant: "default", owner: "agents", kind: "approval", tool: "Bash", pattern: "words", max_risk: "medium" }, ...over,
  };
}

export const rules: Rule[] = [
  rule({ text: "Allows the command git status, also as a part of a longer command whose other parts are allowed by rules as well, run in /srv/app. For requests of build-7 (agents) in the project shop. Whatever is above medium risk still goes to people." }),
  rule({ id: "r2", title: "Write below /srv/app/src", uses: 0, max_uses: undefined, last_used: undefined, maker: ada, may_revoke: false, text: "Allows Write of any file below /srv/app/src (links inside it are not looked at). For requests of build-7 (agents) in this one session. Whatever is above medium risk still goes to people." }),
  rule({ id: "r3", title: "git push", effect: "deny", state: "revoked", revoked_at: iso(-60), revoked_by: ada, text: "Denies the command git push. For requests of build-7 (agents), in all its sessions and projects." }),
];

export function preview(wish: NewRule): RulePreview {
  const c = (request_id: string, input: string, over: Partial<RuleCase> = {}): RuleCase => ({ request_id, digest: wish.digest, headline: input, input, created_at: iso(-140), ...over });
  const what: Record<string, string> = {
    exact: "exactly this command: git status --short", words: "the command git status --short, also as a part of a longer command whose other parts are allowed by rules as well",
  };
  const whose: Record<string, string> = { session: "of build-7 (agents) in this one session", project: "of build-7 (agents) in the project shop", owner: "of build-7 (agents), in all its sessions and projects" };
  return {
    rule: rule({ text: `Allows ${what[wish.pattern ?? "exact"]}, run in /srv/app. For requests ${whose[wish.scope ?? "session"]}. Whatever is above medium risk still goes to people.` }),
    patterns: Object.entries(what).map(([id, text]) => ({ id, text })), scopes: Object.entries(whose).map(([id, text]) => ({ id, text })),
    pending: [c(wish.request_id, "git status --short"), c("other", "git status --short")],
    recent: [c("h1", "git status --short", { outcome: "allowed" }), c("h2", "git status --short", { outcome: "denied" })],
    others: [c("h3", "git status --short && npm test", { outcome: "allowed" })], looked: 34,
    examples: [
      { text: "git status --short && rm -rf build", why: "the second part is allowed by no rule" }, { text: "git status --short $(cat names)", why: "what is run there is known to the shell alone" },
      { text: "git status --short > notes.txt", why: "it writes to a file" }, { text: "sudo git status --short", why: "another program runs it" },
    ],
    max_expires_in: 30 * 24 * 3600,
  };
}
