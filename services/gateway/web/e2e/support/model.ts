// A scripted model API for the real Claude Code, see cmd/banksman/e2e/model.
import { Process } from "./process.ts";

export interface Step {
  name?: string;
  /** A part of the first words of the conversation. */
  conv: string;
  /** A part of the words since the model spoke last. */
  user_text?: string;
  /** The new tool results, all of them. */
  results?: { tool_use_id: string; contains?: string; is_error?: boolean }[];
  reply: ({ text: string; /** Where it pauses after its first piece. */ gate?: string } | { id: string; name: string; input: unknown })[];
  gate?: string;
  /** More than once. */
  repeat?: boolean;
  /** Or never. */
  optional?: boolean;
}

interface Report {
  env?: string[];
  step?: string;
  fault?: string;
  content?: { type: string; source?: { media_type: string; data: string } }[];
}

export class Model {
  private readonly reports: Report[] = [];
  private readonly process: Process;

  private constructor(script: Step[], home: string) {
    this.process = new Process("model", ["-home", home], { PATH: process.env.PATH ?? "" }, (line) => this.reports.push(JSON.parse(line) as Report));
    this.process.write(JSON.stringify(script));
  }

  static async start(script: Step[], home: string): Promise<{ model: Model; env: Record<string, string> }> {
    const model = new Model(script, home);
    const env = await model.process.until(() => model.reports.find((r) => r.env)?.env, "environment");
    return { model, env: Object.fromEntries(env.map((kv) => [kv.slice(0, kv.indexOf("=")), kv.slice(kv.indexOf("=") + 1)])) };
  }

  /** Lets the reply that waits at a gate go on. */
  release(gate: string): void {
    this.process.write(gate);
  }

  /** What the last message brought to the step of that name. */
  async brought(step: string): Promise<NonNullable<Report["content"]>> {
    return await this.process.until(() => this.reports.find((r) => r.step === step)?.content, `request for ${step}`);
  }

  /** Breaches of the script so far. */
  faults(): string[] {
    return this.reports.flatMap((r) => (r.fault ? [r.fault] : []));
  }

  async end(): Promise<void> {
    await this.process.kill();
  }
}
