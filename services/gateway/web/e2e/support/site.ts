// What a browser talks to, whatever it is made of: an address behind a line that
// tests can cut, a session token for programs, askers and commands.
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Asker } from "./asker.ts";
import { PATIENCE, Process } from "./process.ts";
import type { Line } from "./wire.ts";

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
  trail?: { stage: string; detail?: string }[];
}

/** The address that browsers use. */
export const HOST = "127.0.0.1";

export abstract class Site {
  line!: Line;
  protected port = 0;
  protected token = "";
  /** Where the gateway itself listens: it serves the names of its port, the line's too. */
  protected abstract readonly at: string;
  private readonly askers: Asker[] = [];
  private readonly commands: Process[] = [];
  readonly home = mkdtempSync(join(tmpdir(), "banksman-browser-"));
  readonly data = join(this.home, "data");
  readonly env: Record<string, string> = { PATH: process.env.PATH ?? "", HOME: this.home, LANG: "C.UTF-8", TZ: "UTC" };

  get url(): string {
    return `http://${HOST}:${this.port}`;
  }

  /** A session token, for pages of other origins. */
  get session(): string {
    return this.token;
  }

  /** A link that signs a browser in once. */
  abstract link(): Promise<string>;

  /** Ends the processes of which it is made. */
  protected abstract stop(): Promise<void>;

  /** What they said last. */
  protected abstract said(): string[];

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

  async end(): Promise<void> {
    for (const p of [...this.askers, ...this.commands]) await p.kill();
    await this.line?.close();
    await this.stop();
    rmSync(this.home, { recursive: true, force: true });
  }

  output(): string {
    return [...this.said(), ...this.askers.map((a) => a.output())].join("\n--\n");
  }

  /** Calls the gateway as a program, past the line. */
  async call<T>(method: string, path: string, body?: unknown, token = this.token): Promise<{ status: number; body: T }> {
    return await new Promise((done, fail) => {
      const req = request({
        host: this.at, port: this.port, method, path, agent: false, timeout: PATIENCE,
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

}

/** Somebody else who decides, by a token. */
export class Colleague {
  constructor(private readonly site: Site, readonly name: string, readonly token: string) {}

  async decide(key: string, say: Record<string, unknown>): Promise<void> {
    const { digest } = await this.site.interaction(key);
    const r = await this.site.call("POST", `/api/interactions/${encodeURIComponent(key)}/decision`, { digest, ...say }, this.token);
    if (r.status !== 200) throw new Error(`${key}: ${r.status} ${JSON.stringify(r.body)}`);
  }
}
