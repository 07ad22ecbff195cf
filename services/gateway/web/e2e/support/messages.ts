// A receiver of the notifier's messages on loopback: what a channel would bring to
// somebody's phone.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { PATIENCE } from "./process.ts";

export class Receiver {
  private readonly links = new Map<string, string>(); // by the key of what waits
  private heard = (): void => undefined;

  private constructor(private readonly server: Server) {}

  static async start(): Promise<Receiver> {
    const server = createServer();
    const r = new Receiver(server);
    server.on("request", (req, res) => {
      const parts: Buffer[] = [];
      req.on("data", (b: Buffer) => parts.push(b));
      req.on("end", () => {
        const { subject, data } = JSON.parse(Buffer.concat(parts).toString()) as { subject: string; data: { link?: string } };
        if (data.link?.includes("/l/")) r.links.set(subject, data.link);
        r.heard();
        res.writeHead(204).end();
      });
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    return r;
  }

  /** By which the person of this machine decides by the link of a message. */
  config(): string {
    const url = `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/`;
    return `
channels: [{name: hook, type: webhook, url: "${url}", allow_private: true, secrets: [whsec_${Buffer.alloc(32, 7).toString("base64")}]}]
recipients: [{name: me, user: owner, group: 0s, messages: 0, channels: [{channel: hook, decide: link}]}]
routes: [{name: all, remind: [], steps: [{after: 0s, to: [me]}]}]
`;
  }

  /** The link that was sent about something that waits. */
  async link(key: string): Promise<string> {
    if (!this.links.has(key)) {
      await new Promise<void>((done, fail) => {
        const limit = setTimeout(() => fail(new Error(`no message with a link about ${key}`)), PATIENCE);
        this.heard = () => {
          if (!this.links.has(key)) return;
          clearTimeout(limit);
          done();
        };
      });
    }
    return this.links.get(key)!;
  }

  async end(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }
}
