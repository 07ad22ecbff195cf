// The product as a person has it: `banksman up` on an address of its own, with a
// data directory of its own, behind a line that tests can cut.
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Asker } from "./asker.ts";
import { Model, type Step } from "./model.ts";
import { PATIENCE, Process } from "./process.ts";
import { Line } from "./wire.ts";

/** What GET /api/interactions/{id} says, as far as tests look at it. */
export interface Interaction {
  request_id: string;
  key: string;
  session_id: string;
  session_key: string;
  headline: string;
  digest: string;
  state?: string;
  outcome?: string;
  expires_at?: string;
  decision?: { principal: { kind: string; id: string; name?: string }; channel: string; scope?: string };
  trail?: { stage: string }[];
}

// The gateway listens where only the line finds it. It serves the names of its
// port, so that the browser may use the line's address of the same port.
const GATEWAY = "127.0.0.2";
const HOST = "127.0.0.1";

export class Product {
  private up!: Process;
  line!: Line;
  private port = 0;
  private token = "";
  private readonly askers: Asker[] = [];
  private readonly commands: Process[] = [];
  readonly env: Record<string, string>;
  readonly data: string;

  /** Where sessions may work. */
  readonly work: string;
  /** The model that the agents talk to, where there is one. */
  model?: Model;

  private constructor(readonly home: string, private readonly args: string[]) {
    this.data = join(home, "data");
    this.work = join(home, "work");
    mkdirSync(this.work);
    this.env = { PATH: process.env.PATH ?? "", HOME: home, LANG: "C.UTF-8", TZ: "UTC" };
  }

  static async start(args: string[] = [], script: Step[] = []): Promise<Product> {
    const home = mkdtempSync(join(tmpdir(), "banksman-browser-"));
    const p = new Product(home, args);
    if (script.length > 0) {
      const { model, env } = await Model.start(script, home);
      p.model = model;
      Object.assign(p.env, env);
    }
    for (let attempt = 0; ; attempt++) {
      await p.run();
      try {
        p.line = await Line.make(HOST, p.port, GATEWAY);
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
    this.up = new Process("banksman", ["up", "--data", this.data, "--listen", `${GATEWAY}:${this.port}`, "--nats-port", "-1", "--test-login", file, ...this.args], this.env);
    const m = await this.up.line(/http:\/\/[\d.]+:(\d+)\/#login=\S+/);
    this.port = Number(m[1]);
    this.token = readFileSync(file, "utf8").trim();
  }

  get url(): string {
    return `http://${HOST}:${this.port}`;
  }

  /** A link that signs a browser in once. */
  async link(): Promise<string> {
    const p = new Process("banksman", ["login", "--data", this.data], this.env);
    const m = await p.line(/#login=(\S+)/);
    await p.exit;
    return `${this.url}/#login=${m[1]}`;
  }

  /** A command of the terminal, in the background. */
  command(...args: string[]): Process {
    const p = new Process("banksman", [...args, "--data", this.data], this.env);
    this.commands.push(p);
    return p;
  }

  /** An agent's worker that asks. */
  async asker(): Promise<Asker> {
    const a = new Asker(join(this.data, "creds", "owner-agents.json"), this.env);
    this.askers.push(a);
    return a;
  }

  /** Everything dies as in a crash: gateway, bus server and worker. */
  async kill(): Promise<void> {
    await this.up.kill();
  }

  /** Comes back on the same address. */
  async again(): Promise<void> {
    await this.run();
  }

  async end(): Promise<void> {
    for (const p of [...this.askers, ...this.commands]) await p.kill();
    await this.line?.close();
    await this.up.kill();
    await this.model?.end();
    rmSync(this.home, { recursive: true, force: true });
  }

  output(): string {
    return [this.up.output(), ...this.askers.map((a) => a.output())].join("\n--\n");
  }

  /** Calls the gateway as a program, past the line. */
  async call<T>(method: string, path: string, body?: unknown, token = this.token): Promise<{ status: number; body: T }> {
    return await new Promise((done, fail) => {
      const req = request({
        host: GATEWAY, port: this.port, method, path, agent: false, timeout: PATIENCE,
        headers: { Host: `${HOST}:${this.port}`, Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      }, (res) => {
        const parts: Buffer[] = [];
        res.on("data", (d: Buffer) => parts.push(d));
        res.on("end", () => {
          const text = Buffer.concat(parts).toString();
          done({ status: res.statusCode ?? 0, body: (text === "" ? undefined : JSON.parse(text)) as T });
        });
        res.on("error", fail);
      });
      req.on("error", fail).on("timeout", () => req.destroy(new Error(`no answer to ${method} ${path}`)));
      req.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  async interaction(key: string): Promise<Interaction> {
    const r = await this.call<Interaction>("GET", `/api/interactions/${encodeURIComponent(key)}`);
    if (r.status !== 200) throw new Error(`${key}: ${r.status} ${JSON.stringify(r.body)}`);
    return r.body;
  }

  /** Asks the gateway again until it says so. */
  async until<T>(path: string, ready: (body: T) => boolean): Promise<T> {
    const limit = Date.now() + PATIENCE;
    for (;;) {
      const r = await this.call<T>("GET", path).catch(() => undefined);
      if (r?.status === 200 && ready(r.body)) return r.body;
      if (Date.now() > limit) throw new Error(`${path}: ${JSON.stringify(r)}`);
      await new Promise((next) => setTimeout(next, 50));
    }
  }

  /** A program of another name that may decide everything. */
  async colleague(name: string): Promise<Colleague> {
    const r = await this.call<{ token: string }>("POST", "/api/tokens", { name, roles: [{ role: "admin", projects: ["*"] }], expires_in: 3600 });
    if (r.status !== 200) throw new Error(`token: ${r.status} ${JSON.stringify(r.body)}`);
    return new Colleague(this, name, r.body.token);
  }

  newName(): string {
    return randomUUID().slice(0, 8);
  }
}

/** Somebody else who decides, by a token. */
export class Colleague {
  constructor(private readonly product: Product, readonly name: string, readonly token: string) {}

  async decide(key: string, say: Record<string, unknown>): Promise<void> {
    const { digest } = await this.product.interaction(key);
    const r = await this.product.call("POST", `/api/interactions/${encodeURIComponent(key)}/decision`, { digest, ...say }, this.token);
    if (r.status !== 200) throw new Error(`${key}: ${r.status} ${JSON.stringify(r.body)}`);
  }
}
