// The product as a team has it: a bus server, two gateways and whoever asks, each a
// process, and one address that leads to either gateway.
import { mkdirSync, readFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { Process } from "./process.ts";
import { HOST, Site } from "./site.ts";
import { Line } from "./wire.ts";

/** Loopback addresses of the gateways; both use the line's port there. */
const places = ["127.0.0.2", "127.0.0.3"] as const;

export interface TeamOptions {
  /** What people call it, where that is no address: passkeys need a name. */
  name?: string;
  /** Where people reach it, if not at its own port. */
  base?: string;
  /** More flags of each gateway. */
  flags?: string[];
}

export class Team extends Site {
  protected at: string = places[0];
  private nats!: Process;
  private readonly gateways: (Process | undefined)[] = [];
  private readonly workers: Process[] = [];

  private constructor(private readonly o: TeamOptions) {
    super();
  }

  override get url(): string {
    return this.o.base ?? `http://${this.o.name ?? HOST}:${this.port}`;
  }

  static async start(o: TeamOptions = {}): Promise<Team> {
    const t = new Team(o);
    mkdirSync(t.data, { recursive: true });
    const bus = await freePort();
    await t.finish(["creds", "--port", String(bus)]);
    await t.bus();
    await t.finish(["creds", "--provision"]);
    for (let attempt = 0; ; attempt++) {
      t.port = await freePort();
      try {
        t.line = await Line.make(HOST, t.port, t.at);
        await t.gateway(0);
        await t.gateway(1);
        t.token = readFileSync(t.file(0), "utf8").trim();
        return t;
      } catch (e) {
        // The port is somebody's on another address.
        for (const g of t.gateways) await g?.kill();
        await t.line?.close();
        if (attempt === 4) throw e;
      }
    }
  }

  private async finish(args: string[]): Promise<void> {
    const p = this.command(...args);
    const code = await p.exit;
    if (code !== 0) throw new Error(`${args.join(" ")}: ${code}\n${p.output()}`);
  }

  private file(n: number): string {
    return join(this.home, `session-${n}`);
  }

  /** Starts the bus server, with what it had. */
  async bus(): Promise<void> {
    this.nats = new Process("nats-server", ["-c", join(this.data, "nats", "server.conf")], this.env);
    await this.nats.line(/Server is ready/);
  }

  async killBus(): Promise<void> {
    await this.nats.kill();
  }

  /** Starts gateway n, 0 or 1. */
  async gateway(n: 0 | 1): Promise<void> {
    const g = new Process("banksman-gateway", ["--creds", join(this.data, "creds", "gateway.json"), "--listen", `${places[n]}:${this.port}`, "--test-login", this.file(n), "--login", "--cwd", this.home, ...(this.o.name || this.o.base ? ["--base-url", this.url] : []), ...(this.o.flags ?? [])], this.env);
    this.gateways[n] = g;
    await g.line(/#login=\S+/);
  }

  /** A worker, which works in a directory of its own. */
  async worker(): Promise<Process> {
    const w = new Process("banksman-agent", ["-creds", join(this.data, "creds", "owner-agents.json"), "-data", join(this.home, "worker")], this.env);
    this.workers.push(w);
    return w;
  }

  async killGateway(n: 0 | 1): Promise<void> {
    await this.gateways[n]!.kill();
  }

  /** New connections lead to gateway n from now on. */
  lead(n: 0 | 1): void {
    this.at = places[n];
    this.line.target = this.at;
  }

  async link(): Promise<string> {
    return await this.linkOf(0);
  }

  /** The link that gateway n printed at its start; every gateway takes it, once. */
  async linkOf(n: 0 | 1): Promise<string> {
    const m = await this.gateways[n]!.line(/#login=(\S+)/);
    return `${this.url}/#login=${m[1]}`;
  }

  protected async stop(): Promise<void> {
    for (const w of this.workers) await w.kill();
    for (const g of this.gateways) await g?.kill();
    await this.nats.kill();
  }

  protected said(): string[] {
    return [this.nats.output(), ...this.workers.map((w) => w.output()), ...this.gateways.map((g) => g?.output() ?? "")];
  }
}

/** A port that nobody had a moment ago. */
export async function freePort(): Promise<number> {
  const s = createServer();
  await new Promise<void>((done, fail) => s.once("error", fail).listen(0, HOST, done));
  const { port } = s.address() as AddressInfo;
  await new Promise((done) => s.close(done));
  return port;
}
