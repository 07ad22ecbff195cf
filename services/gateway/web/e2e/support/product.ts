// The product as a person has it: `banksman up` on an address of its own, with a
// data directory of its own.
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Model, type Step } from "./model.ts";
import { Process } from "./process.ts";
import { HOST, Site } from "./site.ts";
import { Line } from "./wire.ts";

export class Product extends Site {
  protected readonly at = "127.0.0.2";
  private up!: Process;

  /** Where sessions may work. */
  readonly work = join(this.home, "work");
  /** The model that the agents talk to, where there is one. */
  model?: Model;

  private constructor(private readonly args: string[]) {
    super();
    mkdirSync(this.work);
  }

  static async start(args: string[] = [], script: Step[] = []): Promise<Product> {
    const p = new Product(args);
    if (script.length > 0) {
      const { model, env } = await Model.start(script, p.home);
      p.model = model;
      Object.assign(p.env, env);
    }
    for (let attempt = 0; ; attempt++) {
      await p.run();
      try {
        p.line = await Line.make(HOST, p.port, p.at);
        return p;
      } catch (e) {
        // The port is somebody's on the other address.
        await p.up.kill();
        p.port = 0;
        if (attempt === 4) throw e;
      }
    }
  }

  private async run(): Promise<void> {
    const file = join(this.home, "session");
    mkdirSync(this.data, { recursive: true });
    this.up = new Process("banksman", ["up", "--data", this.data, "--listen", `${this.at}:${this.port}`, "--nats-port", "-1", "--test-login", file, ...this.args], this.env);
    const m = await this.up.line(/http:\/\/[\d.]+:(\d+)\/#login=\S+/);
    this.port = Number(m[1]);
    this.token = readFileSync(file, "utf8").trim();
  }

  async link(): Promise<string> {
    const p = new Process("banksman", ["login", "--data", this.data], this.env);
    const m = await p.line(/#login=(\S+)/);
    await p.exit;
    return `${this.url}/#login=${m[1]}`;
  }

  /** Everything dies as in a crash: gateway, bus server and worker. */
  async kill(): Promise<void> {
    await this.up.kill();
  }

  /** Comes back on the same address. */
  async again(): Promise<void> {
    await this.run();
  }

  protected async stop(): Promise<void> {
    await this.up.kill();
    await this.model?.end();
  }

  protected said(): string[] {
    return [this.up.output()];
  }
}
