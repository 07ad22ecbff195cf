// One request of each kind of card, what a person reads of it, and how it is
// answered, well and badly.
import type { Request } from "./asker.ts";
import type { Card } from "./ui.ts";

export interface Kind {
  name: string;
  request: Request;
  /** What a person must be able to read before deciding. */
  reads: (string | RegExp)[];
  /** Answers it so that it counts. */
  answer: (card: Card) => Promise<void>;
  /** Says it again, when the first try got no word. */
  again: (card: Card) => Promise<void>;
  /** Answers it so that the server refuses. Undefined: a page can send nothing such. */
  refuse: (card: Card) => Promise<void>;
  refused: RegExp;
  /** What somebody else says to it, and how a receipt words that. */
  other: Record<string, unknown>;
  otherWord: string;
  /** The receipt of one's own answer. */
  confirmed: RegExp;
  /** What the agent got. */
  outcome: string;
  expired: RegExp;
}

const agent_name = "Build agent";

const approval = {
  answer: async (card: Card) => {
    await card.seeAll();
    await card.approve.click();
  },
  again: async (card: Card) => {
    await card.approve.click();
  },
  // The same key twice is JSON to a browser and none to the server.
  refuse: async (card: Card) => {
    await card.seeAll();
    await card.edit.click();
    await card.editText.fill('{"a":1,"a":2}');
    await card.approveEdited.click();
  },
  refused: /updated_input/,
  other: { decision: "deny", message: "not today" },
  otherWord: "denied",
  confirmed: /Approved once by you/,
  outcome: "allowed",
  expired: /Expired, nobody decided/,
};

const notes = ["# Release notes 2.4", "", ...Array.from({ length: 48 }, (_, i) => `- Change ${i + 1}: sooner than before.`)].join("\n");

const form = {
  kind: "form",
  agent_name,
  schema: {
    type: "object",
    required: ["env", "replicas"],
    properties: {
      env: { type: "string", title: "Environment", enum: ["staging", "production"] },
      replicas: { type: "integer", title: "Replicas", minimum: 1, maximum: 9 },
      announce: { type: "boolean", title: "Announce it" },
    },
  },
};

const filling = {
  answer: async (card: Card) => {
    await card.fill({ env: "staging", replicas: 2, announce: true });
    await card.submit.click();
  },
  again: async (card: Card) => {
    await card.submit.click();
  },
  refuse: async (card: Card) => {
    await card.fill({ env: "staging", replicas: 12 });
    await card.submit.click();
  },
  refused: /replicas/,
  other: { content: { env: "production", replicas: 3 } },
  otherWord: "answered",
  confirmed: /Answered by you/,
  outcome: "answered",
  expired: /Expired, nobody answered/,
};

/** Nobody answers there. */
export const LINK = "https://tickets.example/connect?account=17";
export const QUESTION = "Which database?";
export const FEATURES = "Which features?";

export const kinds: Kind[] = [
  {
    name: "Bash", ...approval,
    request: {
      kind: "approval", agent_name, title: "Publish the release", reason: "The release is due.",
      tool: { name: "Bash", input: { command: "cd /srv/shop && git push --force origin release/2.4 && rm -rf build/", description: "Push and clean up" }, cwd: "/srv/shop" },
    },
    reads: ["Build agent", "git push --force origin release/2.4", "rm -rf build/", "Push and clean up", /High risk/i],
  },
  {
    name: "Write", ...approval,
    request: { kind: "approval", agent_name, title: "Write the notes", tool: { name: "Write", input: { file_path: "/srv/shop/RELEASE.md", content: notes } } },
    reads: ["/srv/shop/RELEASE.md", "50 lines", "# Release notes 2.4"],
  },
  {
    name: "Edit", ...approval,
    request: {
      kind: "approval", agent_name, title: "Raise the limits",
      tool: { name: "Edit", input: { file_path: "/srv/shop/config.yaml", old_string: "retries: 3\ntimeout: 10s\n", new_string: "retries: 5\ntimeout: 10s\nbackoff: yes\n" } },
    },
    reads: ["/srv/shop/config.yaml", "retries: 3", "retries: 5", /\+2/, /−1/],
  },
  {
    name: "MCP tool", ...approval,
    request: { kind: "approval", agent_name, title: "close (tickets)", tool: { name: "mcp__tickets__close", server: "tickets", input: { ticket: "SHOP-17", comment: "Done in 2.4" } } },
    reads: ["tickets", "SHOP-17", "Done in 2.4"],
  },
  {
    name: "unknown tool as JSON", ...approval,
    request: { kind: "approval", agent_name, title: "Turn the telescope", tool: { name: "Telescope", input: { target: "M31", exposure: 30 } } },
    reads: ["Telescope", "M31"],
  },
  {
    name: "plan", ...approval,
    request: { kind: "approval", agent_name, title: "Leave plan mode and start on the plan", tool: { name: "ExitPlanMode", input: { plan: "# Plan\n\n1. Raise the limits\n2. **Publish** the release" } } },
    reads: ["Plan", "Raise the limits", "Publish"],
  },
  {
    name: "link of an MCP server", ...approval,
    request: {
      kind: "approval", agent_name, title: "Link of the MCP server tickets", message: "Please connect your account",
      tool: { name: "OpenLink", server: "tickets", input: { url: LINK } },
    },
    reads: ["have you open a page of tickets.example", LINK, "Please connect your account", "Nothing opens by itself"],
    answer: async (card) => {
      if (await card.reason.isVisible()) await card.root.getByRole("button", { name: /^Cancel/ }).click();
      await card.seeAll();
      await card.approve.click();
    },
    // An address cannot be edited; so more words than a decision may hold.
    refuse: async (card) => {
      await card.denyWithReason.click();
      await card.reason.fill("x".repeat((1 << 20) + 1));
      await card.sendReason.click();
    },
    refused: /response|larger/,
  },
  {
    name: "question",
    request: {
      kind: "question", agent_name, title: "2 questions: Which database?",
      questions: [
        { id: "db", header: "Database", question: QUESTION, options: [{ label: "Postgres", description: "What we run already", preview: "CREATE TABLE orders ();" }, { label: "SQLite", description: "One file" }] },
        { id: "features", header: "Features", question: FEATURES, multi_select: true, options: [{ label: "Login" }, { label: "Audit log" }] },
      ],
    },
    reads: [QUESTION, "What we run already", "CREATE TABLE orders ();", FEATURES, "Audit log"],
    answer: async (card) => {
      await card.own(FEATURES).fill("");
      await card.option("Postgres").check();
      await card.option("Audit log").check();
      await card.submit.click();
    },
    again: async (card) => {
      await card.submit.click();
    },
    // More than an answer may hold.
    refuse: async (card) => {
      await card.option("Postgres").check();
      await card.own(FEATURES).fill("x".repeat((1 << 20) + 1));
      await card.submit.click();
    },
    refused: /response|larger/,
    other: { answers: { db: "SQLite", features: ["Login"] } },
    otherWord: "answered",
    confirmed: /Answered by you/,
    outcome: "answered",
    expired: /Expired, nobody answered/,
  },
  { name: "form", ...filling, request: { ...form, title: "Where to release" }, reads: ["Environment", "Replicas", "production"] },
  {
    name: "elicitation of an MCP server", ...filling,
    request: {
      ...form, title: "Form of the MCP server tickets", message: "Where shall the ticket's fix go?",
      source: { protocol: "claude-stdio", agent: "Claude Code", request_id: "e1" },
    },
    reads: ["tickets", "Where shall the ticket's fix go?", "Environment", "Replicas"],
  },
];

export const kind = (name: string): Kind => {
  const k = kinds.find((x) => x.name === name);
  if (!k) throw new Error(`no kind ${name}`);
  return k;
};

/** A harmless command, told from others by its word. */
export function command(word: string, more: Partial<Request> = {}): Request {
  return { kind: "approval", agent_name, title: `Run ${word}`, tool: { name: "Bash", input: { command: `make ${word}` } }, ...more };
}

/** Asks one of these in a session. */
export function inSession(request: Request, session_id: string, more: Partial<Request> = {}): Request {
  return { ...request, session_id, ...more };
}

