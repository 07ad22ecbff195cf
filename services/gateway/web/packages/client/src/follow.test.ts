import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Client } from "./client.ts";
import { hello } from "./testing/fixtures.ts";
import type { Handlers, Transport } from "./transport.ts";
import type { ClientFrame, Receipt } from "./wire.ts";

const KEY = "default.agents.s1";

let sent: ClientFrame[];
let handlers: Handlers;
let client: Client;
const subscribes = () => sent.filter((f) => f.type === "subscribe");
const say = (r: Receipt) => handlers.onFrames([{ ...r, type: "receipt", ref: subscribes().at(-1)!.ref, session_id: KEY }]);

beforeEach(() => {
  vi.useFakeTimers();
  sent = [];
  const transport = {
    open: (h: Handlers) => { handlers = h; },
    send: (f: ClientFrame) => sent.push(f) > 0,
    close: () => undefined,
    resume: () => undefined,
  } as unknown as Transport;
  client = new Client({ transport });
  client.start();
  handlers.onFrames([hello()]);
});
afterEach(() => vi.useRealTimers());

describe("a follow that is refused", () => {
  it("is asked for again where the gateway could not do it now, with pauses", async () => {
    client.follow(KEY);
    for (let n = 1; n < 4; n++) {
      expect(subscribes()).toHaveLength(n);
      say({ status: "unavailable", error: "try again" });
      expect(subscribes()).toHaveLength(n);
      await vi.runOnlyPendingTimersAsync();
    }
    say({ status: "accepted" });
    await vi.runAllTimersAsync();
    expect(subscribes()).toHaveLength(4);
    expect(client.state.transcripts[KEY]?.missing ?? false).toBe(false);
  });

  it("of an unknown session waits without a request, and ends with its follower", async () => {
    const end = client.follow(KEY);
    say({ status: "not_found", error: "no such session" });
    await vi.runAllTimersAsync();
    expect(subscribes()).toHaveLength(1);
    expect(client.state.transcripts[KEY]?.missing).toBe(true);
    end();
    handlers.onFrames([hello()]);
    expect(subscribes()).toHaveLength(1);
  });

  it("is no receipt of an answer: whoever listens for those hears nothing", () => {
    const heard: Receipt[] = [];
    client.on("receipt", (r) => heard.push(r));
    client.follow(KEY);
    say({ status: "not_found" });
    expect(heard).toEqual([]);
  });
});
