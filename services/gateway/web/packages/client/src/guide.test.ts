// The client's part of docs/interactive-tools.md: the guide's blocks are held
// against this file.
import { describe, expect, it } from "vitest";
import { Client, DirectTransport, type Host, HttpTransport, type Transport, WebSocketTransport } from "./index.ts";
import { ask, MemoryGateway, me } from "./testing/index.ts";

function transports(gateway: string, token: () => string, host: Host): Transport[] {
  return [
    new WebSocketTransport({ gateway, token }),
    new HttpTransport({ gateway, token }),
    new DirectTransport(host),
  ];
}

describe("the guide, D0-50", () => {
  it("D0-50: a question is answered without a gateway", async () => {
    const memory = new MemoryGateway();
    const client = new Client({ transport: new DirectTransport(memory.host(me)) });
    client.start();
    await client.ready();
    memory.ask(ask("q"));
    const [item] = client.pending();
    const receipt = await client.decide(item!.summary.key, { answers: { db: "SQLite" } });
    expect(receipt).toMatchObject({ status: "accepted", decision: { outcome: "answered" } });
    client.stop();
  });

  it("D0-50: each transport is one of the client's", () => {
    for (const transport of transports("http://127.0.0.1:1", () => "token", new MemoryGateway().host(me))) {
      const client = new Client({ transport });
      expect(client.state.conn.status).toBe("connecting");
      expect(typeof transport.send).toBe("function");
    }
  });
});
