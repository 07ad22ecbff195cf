// A push service on loopback, and the half of a subscription that never leaves a
// browser: it reads what the notifier sends as a browser would.
import { createDecipheriv, createECDH, hkdfSync, randomBytes } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "@playwright/test";
import { PATIENCE } from "./process.ts";

export interface Pushed {
  /** Where it was sent. */
  path: string;
  /** As the service worker gets it. */
  raw: string;
  message: { type: string; key?: string; tag: string; title: string; body?: string; token?: string; actions?: string[] };
  headers: Record<string, string | string[] | undefined>;
}

export class PushService {
  private readonly key = createECDH("prime256v1");
  private readonly auth = randomBytes(16);
  private readonly got: Pushed[] = [];
  private heard = (): void => undefined;
  /** What is answered. */
  status = 201;

  private constructor(private readonly server: Server) {
    this.key.generateKeys();
  }

  static async start(): Promise<PushService> {
    const server = createServer();
    const service = new PushService(server);
    server.on("request", (req, res) => {
      const parts: Buffer[] = [];
      req.on("data", (b: Buffer) => parts.push(b));
      req.on("end", () => {
        const raw = service.open(Buffer.concat(parts));
        service.got.push({ path: req.url ?? "", raw, message: JSON.parse(raw) as Pushed["message"], headers: req.headers });
        service.heard();
        res.writeHead(service.status).end();
      });
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    return service;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/push`;
  }

  /** RFC 8291, section 3.4, and RFC 8188, section 2. */
  private open(body: Buffer): string {
    const salt = body.subarray(0, 16);
    const sender = body.subarray(21, 21 + body[20]!);
    const sealed = body.subarray(21 + body[20]!);
    const info = Buffer.concat([Buffer.from("WebPush: info\0"), this.key.getPublicKey(), sender]);
    const secret = Buffer.from(hkdfSync("sha256", this.key.computeSecret(sender), this.auth, info, 32));
    const cek = Buffer.from(hkdfSync("sha256", secret, salt, "Content-Encoding: aes128gcm\0", 16));
    const nonce = Buffer.from(hkdfSync("sha256", secret, salt, "Content-Encoding: nonce\0", 12));
    const d = createDecipheriv("aes-128-gcm", cek, nonce);
    d.setAuthTag(sealed.subarray(-16));
    const text = Buffer.concat([d.update(sealed.subarray(0, -16)), d.final()]);
    return text.subarray(0, text.lastIndexOf(2)).toString("utf8");
  }

  /** The nth push, from 1. */
  async nth(n: number): Promise<Pushed> {
    if (this.got.length < n) {
      await new Promise<void>((done, fail) => {
        const limit = setTimeout(() => fail(new Error(`no push number ${n}: ${JSON.stringify(this.got.map((g) => g.message))}`)), PATIENCE);
        this.heard = () => {
          if (this.got.length < n) return;
          clearTimeout(limit);
          done();
        };
      });
    }
    return this.got[n - 1]!;
  }

  /** The other half of a subscription's key, and its secret, as a browser tells them. */
  get keys(): { p256dh: string; auth: string } {
    return { p256dh: this.key.getPublicKey().toString("base64url"), auth: this.auth.toString("base64url") };
  }

  /** Has pages subscribe here: a browser of a test has no push service of its own. */
  async lend(page: Page): Promise<void> {
    await page.context().grantPermissions(["notifications"]);
    await page.addInitScript(({ endpoint, p256dh, auth }) => {
      const KEY = "test.subscribed";
      const sub = (applicationServerKey: unknown) => ({
        endpoint, options: { applicationServerKey }, toJSON: () => ({ endpoint, expirationTime: null, keys: { p256dh, auth } }),
        unsubscribe: () => { localStorage.removeItem(KEY); return Promise.resolve(true); },
      });
      const bytes = (text: string) => Uint8Array.from(JSON.parse(text) as number[]).buffer;
      PushManager.prototype.subscribe = (o) => {
        localStorage.setItem(KEY, JSON.stringify([...(o!.applicationServerKey as Uint8Array)]));
        return Promise.resolve(sub(bytes(localStorage.getItem(KEY)!)) as unknown as PushSubscription);
      };
      PushManager.prototype.getSubscription = () => {
        const kept = localStorage.getItem(KEY);
        return Promise.resolve(kept ? (sub(bytes(kept)) as unknown as PushSubscription) : null);
      };
    }, { endpoint: this.endpoint, p256dh: this.key.getPublicKey("base64url"), auth: this.auth.toString("base64url") });
  }

  async end(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }
}
