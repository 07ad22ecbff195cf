// An agent's worker that asks what tests want, see cmd/banksman/e2e/asker.
import { Process } from "./process.ts";

export interface Report {
  op: string;
  name?: string;
  id?: string;
  key?: string;
  outcome?: string;
  message?: string;
  input?: string;
  error?: string;
}

/** A request, without what the asker fills in. */
export interface Request {
  kind: string;
  title: string;
  session_id?: string;
  agent_name?: string;
  project_id?: string;
  message?: string;
  reason?: string;
  expires_in?: string;
  risk?: string;
  tool?: { name: string; input: unknown; cwd?: string; server?: string; description?: string };
  questions?: { id?: string; header?: string; question: string; options: { label: string; description?: string; preview?: string }[]; multi_select?: boolean; required?: boolean; allow_other?: boolean }[];
  schema?: unknown;
  options?: { option_id: string; name: string; effect: string }[];
  suggestions?: unknown;
  url?: string;
  source?: Record<string, string>;
}

/** What one request came to. */
export class Asked {
  constructor(private readonly asker: Asker, readonly name: string, readonly id: string, readonly key: string) {}

  /** What the agent was told. */
  async answer(): Promise<Report> {
    return await this.asker.report("answer", this.name);
  }

  /** Whether the agent has been told anything. */
  answered(): boolean {
    return this.asker.has("answer", this.name);
  }

  withdraw(): void {
    this.asker.order({ op: "withdraw", name: this.name });
  }
}

export class Asker {
  private readonly process: Process;
  private readonly reports: Report[] = [];
  private count = 0;

  constructor(creds: string, env: Record<string, string>) {
    this.process = new Process("asker", ["-creds", creds], env, (line) => this.reports.push(JSON.parse(line) as Report));
  }

  order(o: Record<string, unknown>): void {
    this.process.write(JSON.stringify(o));
  }

  has(op: string, name: string): boolean {
    return this.reports.some((r) => r.op === op && r.name === name);
  }

  async report(op: string, name: string): Promise<Report> {
    const r = await this.process.until(() => this.reports.find((x) => x.op === op && x.name === name), `${op} ${name}`);
    if (r.error !== undefined && op !== "answer") throw new Error(`${op} ${name}: ${r.error}`);
    return r;
  }

  private async obeyed(o: Record<string, unknown> & { op: string }): Promise<void> {
    const name = `${o.op}-${++this.count}`;
    this.order({ ...o, name });
    await this.report(o.op, name);
  }

  /** Begins a session, or says its new state. */
  async session(session: string, title: string, state = "assistant_turn"): Promise<void> {
    await this.obeyed({ op: "session", session, title, state });
  }

  async event(session: string, type: string, data: unknown): Promise<void> {
    await this.obeyed({ op: "event", session, event: { v: 1, type, data } });
  }

  async silent(): Promise<void> {
    await this.obeyed({ op: "silent" });
  }

  async beat(): Promise<void> {
    await this.obeyed({ op: "beat" });
  }

  /** Asks, and waits until the bus has it. last: how far it gets with the decision, if not to applied. */
  async ask(request: Request, last: { stage?: "delivered" | "refused"; detail?: string } = {}): Promise<Asked> {
    const name = `ask-${++this.count}`;
    this.order({ op: "ask", name, request, ...last });
    const r = await this.process.until(() => this.reports.find((x) => x.name === name), `ask ${name}`);
    if (r.op !== "ask") throw new Error(`${request.title}: ${JSON.stringify(r)}`);
    return new Asked(this, name, r.id!, r.key!);
  }

  async kill(): Promise<void> {
    await this.process.kill();
  }

  output(): string {
    return this.process.output();
  }
}
