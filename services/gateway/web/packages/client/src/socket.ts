import { Gateway, type GatewayOptions } from "./http.ts";
import { parse } from "./parse.ts";
import { type Call, Link } from "./transport.ts";
import { CLOSE_BAD_AUTH, CLOSE_RECONNECT_MAX, type ClientFrame, type Interaction } from "./wire.ts";

export interface SocketOptions extends GatewayOptions {
  /** Makes the socket; for places without a global WebSocket, and for tests. */
  create?: (url: string) => WebSocket;
  random?: () => number;
}

/** Everything over one WebSocket; bodies and lists over HTTP. */
export class WebSocketTransport extends Link {
  private ws: WebSocket | null = null;
  private readonly http: Gateway;

  constructor(private readonly o: SocketOptions) {
    super(o.random);
    this.http = new Gateway(o, () => {
      this.drop(1000);
      this.stop({ status: "signed_out" });
    });
  }

  send(frame: ClientFrame): boolean {
    if (!this.ws || !this.ready || this.ws.readyState !== 1) return false;
    this.ws.send(JSON.stringify(frame));
    return true;
  }

  interaction(key: string, o?: Call): Promise<Interaction> {
    return this.http.interaction(key, o);
  }

  interactions(state: "pending" | "closed", limit: number, o?: Call): Promise<Interaction[]> {
    return this.http.interactions(state, limit, o);
  }

  protected drop(code: number): void {
    const ws = this.ws;
    this.ws = null;
    if (!ws) return;
    ws.onopen = ws.onmessage = ws.onclose = null;
    ws.onerror = () => undefined; // closing while connecting is an error to some
    ws.close(code);
  }

  protected connect(): void {
    const token = this.o.token();
    if (!token) {
      this.stop({ status: "signed_out" });
      return;
    }
    const ws = (this.o.create ?? ((url) => new WebSocket(url)))(socketUrl(this.o.gateway ?? ""));
    this.ws = ws;
    ws.onopen = () => {
      const cursor = this.cursor();
      ws.send(JSON.stringify(cursor ? { type: "auth", token, cursor } : { type: "auth", token }));
    };
    ws.onmessage = (e: MessageEvent) => this.receive(ws, e.data);
    ws.onerror = () => undefined; // close follows and says why
    ws.onclose = (e: CloseEvent) => {
      if (this.ws !== ws) return;
      this.ws = null;
      if (e.code === CLOSE_BAD_AUTH) this.stop({ status: "signed_out" });
      else if (e.code > CLOSE_RECONNECT_MAX) this.stop({ status: "stopped", code: e.code, reason: e.reason });
      else this.lost();
    };
  }

  private receive(ws: WebSocket, data: unknown): void {
    if (this.ws !== ws || typeof data !== "string") return;
    this.heard();
    let list: unknown[];
    try {
      const parsed = parse(data);
      list = Array.isArray(parsed) ? parsed : [parsed];
    } catch {
      return; // one bad frame must not cost the link
    }
    this.frames(list);
  }
}

function socketUrl(gateway: string): string {
  const url = new URL("/api/ws", gateway === "" ? location.href : gateway);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}
