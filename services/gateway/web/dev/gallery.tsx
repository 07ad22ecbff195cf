import { createRoot } from "react-dom/client";
import { type Event, type InFrame, type Interaction, type Summary } from "@banksman/client";
import { ada, ask, bash, closed, decision, edit, features, fieldForm, form, hello, plan, question, session, system, unknown, write } from "@banksman/client/testing";
import { type Harness, harness } from "../src/testing/harness";
import { Root } from "../src/ui/Root";
import { applyTheme } from "../src/ui/theme";
import "../src/ui/style.css";
import { preview, rules } from "./rules";

const params = new URLSearchParams(location.search);
const story = params.get("story") ?? "inbox";
applyTheme(params.get("theme") === "dark" ? "dark" : "light");
const now = Date.now();
const iso = (s: number) => new Date(now + s * 1000).toISOString();
const live = (s: Summary, over: Partial<Summary> = {}): Summary => ({ ...s, created_at: iso(-140), expires_at: iso(460), server_time: iso(0), ...over });
const KEY = "default.agents.s1";

const before = "export function add(a, b) {\n  return a - b\n}\n";
const after = "/** Sum of two numbers. */\nexport function add(a, b) {\n  if (typeof a !== 'number' || typeof b !== 'number') {\n    throw new TypeError('two numbers, please')\n  }\n  return a + b\n}\n";
const long = `curl -fsSL https://example.com/install.sh -o /tmp/install.sh --retry 5 --retry-delay 2 --connect-timeout 20 --header 'Accept: application/octet-stream' --header 'User-Agent: build-7/2.4' --cacert /etc/ssl/certs/internal.pem --resolve example.com:443:10.0.12.7 --output-dir /tmp --create-dirs --compressed --location-trusted --max-redirs 3 --proto '=https' --tlsv1.3 --silent --show-error --fail-with-body --etag-save /tmp/install.etag --etag-compare /tmp/install.etag --limit-rate 2M --keepalive-time 30; rm -rf /srv`;
const three = [question(), features, question({ id: "name", header: "Name", question: "What is the service called?", options: [], required: false })];

const effect: Partial<Summary> = {
  headline: "build-7 wants to delete build/ for good and force-push release/2.4 to origin", risk_reason: "deletes files for good", irreversible: true,
};
const longParts = [
  { text: long.slice(0, long.lastIndexOf(";")), joint: "first", risk: "medium", risk_reason: "talks to the network" },
  { text: "rm -rf /srv", joint: "then", risk: "critical", risk_reason: "deletes a whole tree for good" },
];
const lots = "cd /srv/app && git fetch origin && git checkout main && npm ci && npm test && npm run build && docker build -t app:2.4 . && docker push registry.example.com/app:2.4 && kubectl -n prod rollout restart deploy/app && curl -fsS https://app.example.com/health | jq .ok";
const lotsParts = lots.split(/ (?:&&|\|) /).map((text, i) => {
  const bad = text.startsWith("docker push") ? "publishes an image" : text.startsWith("kubectl") ? "changes shared systems" : "";
  return { text, joint: i === 0 ? "first" : text.startsWith("jq") ? "pipe" : "and", risk: bad ? "high" : "medium", risk_reason: bad || "runs a command" };
});
const several = edit("r12", before, after);
several.body!.blocks = [...several.body!.blocks!.slice(0, 1), { label: "Change 1 of 2", form: "diff", old: "const limit = 10;\nconst name = 'shop';\n", new: "const limit = 25;\nconst name = 'shop-eu';\n", added: 2, removed: 2 }, { label: "Change 2 of 2", form: "diff", old: before, new: after }];

const pend = {
  bash: live(bash("r1"), effect),
  edit: live(edit("r2", before, after), { headline: "build-7 wants to change /srv/app/math.js (+5 −1)", risk_reason: "changes a file", expires_at: undefined, created_at: iso(-7300) }),
  ask: live(ask("r3", three), { expires_at: iso(80) }),
  one: live(ask("r4", [question({ options: question().options!.map((o, i) => (i === 0 ? { ...o, preview: "CREATE TABLE orders (\n  id bigint PRIMARY KEY\n);" } : o)) })])),
  write: live(write("r5", 214)),
  hidden: live(bash("r6", "echo safe ⟦U+202E⟧txt.exe⟦U+200B⟧                                        && rm -rf ~", { risk: "critical", risk_reason: "It deletes the home directory." }, { hidden: 2, pushed: true })),
  long: live(bash("r7", long, { headline: "build-7 wants to delete /srv for good", risk: "critical", risk_reason: "deletes a whole tree for good", irreversible: true, body: { ...bash("r7", long).body!, parts: longParts } })),
  lots: live(bash("r13", lots, { headline: "build-7 wants to publish the image registry.example.com/app:2.4 and roll out restart deploy/app in prod", risk_reason: "publishes an image", body: { ...bash("r13", lots).body!, parts: lotsParts } })),
  several: live(several, { headline: "build-7 wants to change /srv/app/math.js (+7 −3)" }),
  plan: live(plan("r10", "The retries live in three places. I would move them into the client.\n\n1. Read the failing test and write down what it expects\n2. Move the retry loop from the handlers into client.ts\n   - one place, one limit\n   - the handlers keep their deadlines\n3. Run the suite, then look at the timings\n\n<script>alert(1)</script> stays text.")),
  mcp: live(bash("r14", "x", { tool_name: "mcp__billing__refund", headline: "build-7 wants to use refund of the MCP server billing", title: "refund (billing)", risk: "medium", risk_reason: "", tool_input: "{}", body: { verbs: ["allow", "deny", "dismiss"], scopes: ["once"], input: "{}", blocks: [{ label: "Input", form: "json", text: '{\n  "order": 9007199254740993,\n  "amount": 19.90,\n  "note": "paid twice ⟦U+202E⟧yllaer"\n}', hidden: 1, lines: 5 }] } })),
  fields: live(fieldForm("r11")),
  broken: live(bash("r15", "ls", { body: { ...bash("r15", "ls").body!, blocks: [{ label: "Command", form: "command", text: 7 as unknown as string }] } })),
  form: live(form("r8")),
  unknown: live(unknown("r9")),
};

const h: Harness = harness();
h.app.store.dispatch({ kind: "conn", status: { status: "online" } });
const start = (pending: Summary[], closedOnes: Interaction[] = []) => {
  h.api.closed = closedOnes;
  h.status({ status: "online" });
  h.push(
    hello({ server_time: iso(0) }),
    { type: "active_processes", cursor: "c", more: false, sessions: [
      session(pending, { started_at: iso(-900) }),
      session([], { session_key: "default.agents.s2", session_id: "s2", title: "Upgrade dependencies", state: "user_turn", started_at: iso(-2000) }),
      session([], { session_key: "default.cli.s3", session_id: "deploy-script", title: "", owner: "cli", runtime: "", state: "dead", started_at: iso(-9000) }),
    ] },
  );
};
const past = (s: Summary, outcome: Parameters<typeof closed>[1], over = {}): Interaction => ({ id: s.request_id, ...closed(live(s), outcome, { decided_at: iso(-30), ...over }) });
const done = [
  past(bash("h1", "npm run build", { headline: "build-7 wants to run npm run" }), "allowed"),
  past(edit("h2", before, after), "denied", { principal: ada, channel: "slack", message: "Keep the old signature." }),
  past(ask("h3", [question(), features]), "answered", { answers: [{ question_id: "db", values: ["pg"] }, { question_id: "feat", values: ["login", "audit"], other: "and single sign-on" }] }),
  past(bash("h4", "git push --force", { headline: "build-7 wants to force-push the current branch" }), "expired", { principal: system }),
];
done[0]!.trail = [{ v: 1, stage: "delivered", decision_id: "d", at: iso(-29) }, { v: 1, stage: "applied", decision_id: "d", at: iso(-28) }];

const ev = (type: string, data: unknown): Event => ({ type, at: iso(-100), data });
const talk: InFrame = { type: "event", session_id: "s1", session_key: KEY, cursor: "e", events: [
  ev("text", { role: "user", text: "Please rebuild and push the release branch." }),
  ev("text", { role: "assistant", text: "The build folder is stale, so I’ll look at it first." }),
  ev("tool_call_start", { tool_call_id: "t1", tool_name: "Bash" }),
  ev("tool_call_end", { tool_call_id: "t1", tool_name: "Bash", input: '{\n  "command": "ls -la build/"\n}' }),
  ev("tool_result", { tool_call_id: "t1", content: "total 8\ndrwxr-xr-x 2 app app 4096 Mar  4 13:40 .", is_error: false }),
  ev("interaction_request", { ...past(bash("h1", "npm run build"), "allowed"), interaction_id: "h1" }),
  ev("interaction_response", { interaction_id: "h1", tool_call_id: "t2", decision: decision(live(bash("h1")), "allowed", { decided_at: iso(-60) }) }),
  ev("text", { role: "assistant", text: "The bundle is fresh. Now I need to push the branch, which rewrites its history." }),
] };

function play(): void {
  switch (story) {
    case "empty": return start([], done);
    case "loading": h.status({ status: "online" }); return h.push(hello({ server_time: iso(0) }));
    case "login": return h.app.store.dispatch({ kind: "conn", status: { status: "signed_out" } });
    case "session": location.hash = `#/s/${KEY}`; start([pend.bash]); return void setTimeout(() => h.push(talk), 50);
    case "session-free": location.hash = `#/s/${KEY}`; start([]); return void setTimeout(() => h.push(talk), 50);
    case "new": location.hash = "#/new"; return start([]);
    case "sessions": location.hash = "#/sessions"; return start([pend.bash, pend.ask]);
    case "history": location.hash = "#/history"; return start([], done);
    case "lost": {
      start([pend.bash, pend.edit]);
      return h.status({ status: "lost", at: now + 9000 });
    }
    case "sending": start([pend.bash]); return h.app.respond(pend.bash.key, { decision: "allow", scope: "once" });
    case "refused": {
      start([pend.one]);
      h.app.respond(pend.one.key, { answers: [] });
      return h.push({ type: "receipt", ref: h.answers()[0]!.ref!, status: "invalid", error: "the answer does not fit", fields: [{ field: "answers.db", problem: "is missing" }] });
    }
    case "expired": {
      h.app.drafts.save(pend.one.key, { answers: { db: { values: [], useOther: true, other: "MariaDB, because ops knows it" } } });
      start([pend.one, pend.bash]);
      return void setTimeout(() => h.push({ ...session([]), type: "process_state", cursor: "c2", closed: [closed(pend.one, "expired", { principal: system, decided_at: iso(0) }), closed(pend.bash, "allowed", { principal: ada, decided_at: iso(0), channel: "cli" })] }), 300);
    }
    case "cli": start([pend.edit]); return h.push({ type: "cli_login", code: "KX4F-92QD", name: "sam@workstation", requested_at: iso(0), expires_at: iso(600) });
    case "rules": location.hash = "#/rules"; h.api.list = rules; return start([]);
    case "always": case "rule": {
      h.api.preview = preview;
      start([live(bash("r1", "git status --short", { risk: "medium", risk_reason: "runs a command", project_id: "shop" }))]);
      setTimeout(() => document.querySelector<HTMLElement>("[data-testid=always]")?.click(), 200);
      if (story === "rule") setTimeout(() => document.querySelectorAll<HTMLElement>("[role=menuitem]")[1]?.click(), 400);
      return;
    }
    case "two": return start([pend.bash, pend.lots]);
    case "end": start([pend.bash, pend.lots]); return void setTimeout(() => document.querySelector("[data-bar]")?.scrollIntoView({ block: "center" }), 300);
    case "inbox": return start([pend.bash, pend.edit, pend.ask]);
    case "overview": case "batch": {
      const read = (id: string, file: string) => live(bash(id, file, { tool_name: "Read", risk: "low", risk_reason: undefined, headline: `build-7 wants to read ${file}`, body: { verbs: ["allow", "deny", "dismiss"], scopes: ["once"], cwd: "/srv/app", blocks: [{ label: "File", form: "path", text: file, lines: 1 }] } }));
      start([pend.bash, pend.edit, read("r20", "/srv/app/package.json"), live(ask("r21")), pend.ask, read("r22", "/etc/hosts"), pend.write, pend.hidden, pend.long, pend.form]);
      if (story === "batch") setTimeout(() => {
        for (const id of ["r1", "r20", "r2"]) document.querySelector<HTMLElement>(`[data-testid="select-${id}"]`)?.click();
        setTimeout(() => document.querySelector<HTMLElement>('[data-testid="batch-open"]')?.click(), 100);
      }, 300);
      return;
    }
    case "settings": {
      location.hash = "#/settings";
      h.api.replies["GET /api/me"] = { principal: { kind: "person", id: "sam", name: "Sam" }, channel: "web", assurance: "session", via: "passkey", expires_at: iso(40_000), roles: [{ role: "admin", projects: ["*"] }], passkey: true, manages: true };
      h.api.replies["GET /api/users"] = { users: [{ id: "ada", name: "Ada", roles: [{ role: "approver", projects: ["shop", "bank"] }], source: "invite", passkeys: 1, created: iso(-90_000) }] };
      h.api.replies["GET /api/tokens"] = { tokens: [{ id: "t1", name: "nightly report", roles: [{ role: "viewer", projects: ["*"] }], created: iso(-90_000), created_by: "sam", expires_at: iso(900_000), last_used: iso(-700) }] };
      return start([]);
    }
    default: {
      const s = (pend as Record<string, Summary | undefined>)[story];
      return start(s ? [s] : []);
    }
  }
}
play();
createRoot(document.getElementById("root")!).render(<Root app={h.app} loginProblem="" />);
