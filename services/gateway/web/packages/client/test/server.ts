// Serves a gateway in memory over real sockets: the frames, routes and codes of
// the protocol, so that the transports run as they run against the real one.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import { type ClientFrame, type CommandFrame, type DecideFrame, GatewayError, type Host, type InFrame, type Principal, type Receipt } from "../src/index.ts";
import type { MemoryGateway } from "../src/testing/index.ts";

export interface Served {
  url: string;
  /** Connections that are open now, of either sort. */
  open(): number;
  /** Breaks every connection without a goodbye. */
  cut(): void;
  /** Says goodbye to every socket with this code. */
  dismiss(code: number): void;
  close(): Promise<void>;
}

/** people are the tokens that are good. */
export async function serve(memory: MemoryGateway, people: Map<string, Principal>): Promise<Served> {
  const sockets = new Set<WebSocket>();
  const streams = new Set<ServerResponse>();
  const server: Server = createServer((req, res) => void route(req, res));
  const wss = new WebSocketServer({ server, path: "/api/ws" });
  wss.on("connection", (ws) => {
    sockets.add(ws);
    ws.on("close", () => sockets.delete(ws));
    speak(ws);
  });

  function speak(ws: WebSocket): void {
    const life = new AbortController();
    const subs = new Map<string, AbortController>();
    let host: Host | undefined;
    ws.on("close", () => life.abort());
    const send = (frames: InFrame[]) => {
      if (ws.readyState === 1) ws.send(JSON.stringify(frames.length === 1 ? frames[0] : frames));
    };
    const receipt = (f: ClientFrame, r: Receipt) => send([{ ...r, type: "receipt", ref: f.ref, request_id: f.request_id, session_id: r.session_id ?? f.session_id }]);
    const answer = (f: ClientFrame, said: Promise<Receipt>) => said.then((r) => receipt(f, r), (e: unknown) => receipt(f, refusal(e)));
    ws.on("message", (raw: Buffer) => {
      const f = JSON.parse(raw.toString()) as ClientFrame;
      if (!host) {
        const person = people.get(f.token ?? "");
        if (f.type !== "auth" || !person) {
          ws.close(3500, "sign in again");
          return;
        }
        host = memory.host(person);
        host.watch({ cursor: f.cursor ?? "", signal: life.signal }, send).catch(() => ws.terminate());
        return;
      }
      switch (f.type) {
        case "pong": return;
        case "subscribe": {
          const own = new AbortController();
          subs.get(f.session_id!)?.abort();
          subs.set(f.session_id!, own);
          life.signal.addEventListener("abort", () => own.abort());
          let told = false;
          const first = (frames: InFrame[]) => {
            if (f.ref && !told) receipt(f, { status: "accepted" });
            told = true;
            send(frames);
          };
          host.subscribe(f.session_id!, { from: f.from ?? "", signal: own.signal }, first).catch((e: unknown) => {
            if (f.ref) receipt(f, refusal(e));
          });
          return;
        }
        case "unsubscribe":
          subs.get(f.session_id!)?.abort();
          return;
        case "seen":
          void host.seen!(f.requests ?? [], life);
          return;
        case "pending_request_response":
          void answer(f, host.decide(f as DecideFrame, life));
          return;
        default:
          void answer(f, host.command(f as CommandFrame, life));
      }
    });
  }

  async function route(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? "/", "http://x");
    const person = people.get((req.headers.authorization ?? "").replace(/^Bearer /, ""));
    const end = (status: number, body: unknown) => {
      res.writeHead(status, { "Content-Type": "application/json" });
      res.end(JSON.stringify(body));
    };
    if (!person) {
      end(401, { code: "unauthorized", error: "sign in again" });
      return;
    }
    const host = memory.host(person);
    const gone = new AbortController();
    res.on("close", () => gone.abort());
    const part = url.pathname.split("/").slice(2).map(decodeURIComponent);
    const last = String(req.headers["last-event-id"] ?? "");
    try {
      if (req.method === "GET" && url.pathname === "/api/events") {
        begin(res);
        await host.watch({ cursor: last, signal: gone.signal }, (frames) => {
          for (const f of frames) res.write(`data: ${JSON.stringify(f)}\n\n`);
        });
      } else if (req.method === "GET" && part[0] === "sessions" && part[2] === "events") {
        let live = false;
        await host.subscribe(part[1]!, { from: last, signal: gone.signal }, (frames) => {
          if (!res.headersSent) begin(res);
          for (const f of frames) if (f.type === "event") {
            if (f.reset) res.write("event: reset\ndata: {}\n\n");
            const events = f.events ?? [];
            events.forEach((e, i) => {
              const id = e.cursor && events[i + 1]?.cursor !== e.cursor ? `id: ${e.cursor}\n` : "";
              // In two pieces: what belongs to one cursor may arrive apart.
              res.write(`${id}event: ${e.type}\n`);
              res.write(`at: ${e.at}\ndata: ${JSON.stringify(e.data)}\n\n`);
            });
            if (!f.more && !live) res.write(": live\n\n");
            if (!f.more) live = true;
          }
        });
      } else if (req.method === "GET" && part[0] === "interactions" && part[1]) end(200, await host.interaction(part[1]));
      else if (req.method === "GET" && part[0] === "interactions") {
        end(200, { interactions: await host.interactions(url.searchParams.get("state") as "pending", Number(url.searchParams.get("limit"))) });
      } else {
        const body = JSON.parse(await text(req)) as object;
        const commands: Record<string, CommandFrame["type"]> = { message: "send_message", interrupt: "interrupt", stop: "stop_session", mode: "set_mode" };
        if (url.pathname === "/api/seen") {
          await host.seen!((body as { requests: string[] }).requests, gone);
          end(200, { ok: true });
          return;
        }
        let said: Receipt;
        if (part[0] === "interactions") {
          said = await host.decide({ ...body, type: "pending_request_response", request_id: part[1]! }, gone);
          if (said.status !== "accepted" && said.status !== "duplicate") {
            end(said.status === "expired" ? 410 : 409, { code: said.status, error: "it was decided before", decision: said.decision });
            return;
          }
        } else if (part[1]) said = await host.command({ ...body, type: commands[part[2]!]!, session_id: part[1] }, gone);
        else said = await host.command({ ...body, type: "start_session" }, gone);
        end(200, part[0] === "interactions" ? said : part[1] ? { ok: true } : { session_id: said.session_id });
      }
    } catch (e) {
      if (res.headersSent) res.destroy();
      else if (e instanceof GatewayError) end(e.status, { code: e.code, error: e.message, fields: e.fields });
      else res.destroy();
    }
  }

  function begin(res: ServerResponse): void {
    streams.add(res);
    res.on("close", () => streams.delete(res));
    res.writeHead(200, { "Content-Type": "text/event-stream" });
  }

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    open: () => sockets.size + streams.size,
    cut() {
      for (const ws of sockets) ws.terminate();
      for (const res of streams) res.destroy();
    },
    dismiss(code) {
      for (const ws of sockets) ws.close(code, "because");
    },
    async close() {
      for (const ws of sockets) ws.terminate();
      wss.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function refusal(e: unknown): Receipt {
  if (e instanceof GatewayError) return { status: e.code as Receipt["status"], error: e.message, fields: [...e.fields] };
  return { status: "unavailable", error: String(e) };
}

function text(req: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    req.on("data", (b: Buffer) => parts.push(b));
    req.on("end", () => resolve(Buffer.concat(parts).toString()));
    req.on("error", reject);
  });
}
