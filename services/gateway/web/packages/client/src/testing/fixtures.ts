// Frames as a gateway sends them, for tests and for the gallery in dev/.
import type { Block, Body, FormField, Part, Closed, Decision, Hello, Outcome, ProcessState, Question, Summary } from "../wire.ts";

export const T0 = Date.parse("2026-03-04T14:02:00Z");

export function at(seconds: number): string {
  return new Date(T0 + seconds * 1000).toISOString();
}

export const me = { kind: "person", id: "owner", name: "Sam" };

export function hello(over: Partial<Hello> = {}): Hello {
  return { type: "hello", protocol: 1, cursor: "c0", server_time: at(0), principal: me, recovered: false, runtimes: ["claude", "demo"], default_cwd: "/srv/app", ...over };
}

export function body(over: Partial<Body> = {}): Body {
  return { verbs: ["allow", "deny", "dismiss"], scopes: ["once"], ...over };
}

export function summary(id: string, over: Partial<Summary> = {}): Summary {
  return {
    request_id: id, key: `default.agents.${id}`, request_type: "tool_approval", kind: "approval", presentation: "tool",
    session_id: "s1", session_key: "default.agents.s1", tenant: "default", owner: "agents", agent_name: "build-7",
    tool_name: "Bash", headline: "build-7 wants to run a shell command", title: "Rebuild and force-push the release branch",
    digest: `digest-${id}`, risk: "high", risk_reason: "It rewrites the history of a shared branch.",
    created_at: at(-60), expires_at: at(540), server_time: at(0), ...over,
  };
}

const RELEASE = "rm -rf build/ && npm run build && git push --force-with-lease origin release/2.4";

export const releaseParts: Part[] = [
  { text: "rm -rf build/", joint: "first", risk: "high", risk_reason: "deletes files for good" },
  { text: "npm run build", joint: "and", risk: "medium", risk_reason: "runs a command" },
  { text: "git push --force-with-lease origin release/2.4", joint: "and", risk: "high", risk_reason: "rewrites a published branch" },
];

export function bash(id: string, command = RELEASE, over: Partial<Summary> = {}, block: Partial<Block> = {}): Summary {
  return summary(id, {
    tool_input: command,
    body: body({
      shown: `shown-${id}`, cwd: "/srv/app", input: JSON.stringify({ command, description: "Rebuild and force-push" }), scopes: ["once", "session"],
      grants: ["every use of Bash that begins with “npm run build”"], ...(command === RELEASE ? { parts: releaseParts } : {}),
      blocks: [{ label: "Command", form: "command", text: command, lines: 1, ...block }, { label: "Description", form: "text", text: "Rebuild the bundle and push the release branch again", lines: 1 }],
    }),
    ...over,
  });
}

export function edit(id: string, before: string, after: string, over: Partial<Summary> = {}): Summary {
  return summary(id, {
    tool_name: "Edit", headline: "build-7 wants to change /srv/app/math.js", title: "Fix add", risk: "medium", risk_reason: undefined,
    body: body({ cwd: "/srv/app", input: "{}", blocks: [{ label: "File", form: "path", text: "/srv/app/math.js", lines: 1 }, { label: "Change", form: "diff", old: before, new: after }] }),
    ...over,
  });
}

export function write(id: string, lines: number, over: Partial<Summary> = {}): Summary {
  const text = Array.from({ length: lines }, (_, i) => `export const value${i + 1} = ${i + 1};`).join("\n");
  return summary(id, {
    tool_name: "Write", headline: "build-7 wants to write /srv/app/src/values.ts", title: "Write the values", risk: "medium", risk_reason: undefined,
    body: body({ input: "{}", blocks: [{ label: "File", form: "path", text: "/srv/app/src/values.ts", lines: 1 }, { label: "Content", form: "content", text, lines }] }),
    ...over,
  });
}

export function question(over: Partial<Question> = {}): Question {
  return {
    id: "db", header: "Database", question: "Which database should the service use?", multi_select: false, allow_other: true, required: true,
    options: [
      { value: "pg", label: "Postgres", description: "Relational, the platform team runs it already" },
      { value: "lite", label: "SQLite", description: "Embedded, no server to run" },
      { value: "dyn", label: "DynamoDB", description: "Managed, paid per request" },
    ],
    ...over,
  };
}

export const features = question({
  id: "feat", header: "Features", question: "What belongs into the first release?", multi_select: true,
  options: [
    { value: "login", label: "Login", description: "Passwords and passkeys" },
    { value: "bill", label: "Billing", description: "Plans, invoices, receipts" },
    { value: "audit", label: "Audit log" },
  ],
});

export function ask(id: string, questions: Question[] = [question()], over: Partial<Summary> = {}): Summary {
  return summary(id, {
    request_type: "ask_user_question", kind: "question", presentation: "questionnaire", tool_name: "AskUserQuestion", risk: "low", risk_reason: undefined,
    headline: questions.length === 1 ? "build-7 asks a question" : `build-7 asks ${questions.length} questions`, title: "Decisions before I scaffold the service",
    body: { verbs: ["answer", "clarify", "dismiss"], scopes: [], questions },
    ...over,
  });
}

export const schema = '{\n  "type": "object",\n  "properties": {\n    "port": { "type": "integer", "maximum": 9007199254740993 }\n  },\n  "required": ["port"]\n}';

export function form(id: string, over: Partial<Summary> = {}): Summary {
  return summary(id, {
    request_type: "form", kind: "form", presentation: "questionnaire", tool_name: "", risk: "low", risk_reason: undefined,
    headline: "build-7 asks you to fill in a form", title: "Where should it listen?",
    body: { verbs: ["answer", "clarify", "dismiss"], scopes: [], schema, blocks: [{ label: "Form", form: "json", text: schema, lines: 7 }] },
    ...over,
  });
}

export const formFields: FormField[] = [
  { name: "env", label: "Environment", type: "string", required: true, choices: [{ json: '"staging"', label: "Staging" }, { json: '"prod"', label: "Production" }] },
  { name: "port", label: "Port", description: "Where it listens", type: "integer", required: true, minimum: "1", maximum: "9007199254740993" },
  { name: "mail", label: "Whom to tell", type: "string", format: "email", required: false },
  { name: "days", label: "Days", type: "array", required: false, choices: [{ json: '"mo"', label: "Monday" }, { json: "2", label: "Tuesday" }] },
  { name: "announce", label: "Announce it in the team chat", type: "boolean", required: false },
];

/** A form whose fields the server could tell. */
export function fieldForm(id: string, over: Partial<Summary> = {}): Summary {
  const f = form(id);
  return { ...f, title: "Form of the MCP server deploy", body: { ...f.body!, fields: formFields, message: "Please fill in the deployment" }, ...over };
}

export function plan(id: string, text = "1. Read the failing test\n2. Move the retry into the client\n3. Run the suite"): Summary {
  return summary(id, {
    tool_name: "ExitPlanMode", headline: "build-7 wants to leave plan mode and start on its plan", title: "ExitPlanMode", risk: "medium", risk_reason: "lets the agent start on its plan",
    body: body({ input: "{}", blocks: [{ label: "Plan", form: "plan", text, lines: text.split("\n").length }] }),
  });
}

export function unknown(id: string): Summary {
  return summary(id, {
    request_type: "retina_scan", kind: "retina_scan", tool_name: "Scanner", headline: "build-7 asks for a decision of the kind retina_scan", tool_input: '{\n  "eye": "left"\n}',
    body: { verbs: ["deny", "dismiss"], scopes: [], blocks: [{ label: "Input", form: "json", text: '{\n  "eye": "left"\n}', lines: 3 }] },
  });
}

export function session(pending: Summary[], over: Partial<ProcessState> = {}): ProcessState {
  const first = pending[0];
  return {
    session_key: "default.agents.s1", v: 1, session_id: "s1", tenant: "default", owner: "agents", worker: "w1", generation: 1, runtime: "claude",
    title: "Release 2.4", cwd: "/srv/app", state: "assistant_turn", started_at: at(-600), state_changed_at: at(-60), mode: "default", model: "sonnet",
    pending_count: pending.length, pending_requests: pending, ...(first ? { pending_request: first } : {}), ...over,
  };
}

export function processState(pending: Summary[], over: Partial<ProcessState> = {}): ProcessState & { type: "process_state" } {
  return { ...session(pending, over), type: "process_state", cursor: over.cursor ?? "c1" };
}

export function decision(s: Summary, outcome: Outcome, over: Partial<Decision> = {}): Decision {
  return {
    v: 1, decision_id: `d-${s.request_id}`, interaction_id: s.request_id, digest: s.digest, outcome, principal: me, channel: "web",
    policy: { version: "1", risk: s.risk }, decided_at: at(5), request_seq: 1, requested_at: s.created_at, ...over,
  };
}

export function closed(s: Summary, outcome: Outcome, over: Partial<Decision> = {}): Closed {
  return { ...s, state: "closed", outcome, decision: decision(s, outcome, over) };
}

export const system = { kind: "system", id: "deadline" };
export const ada = { kind: "person", id: "ada", name: "Ada" };
