import { expect, it } from "vitest";
import { Client } from "./client.ts";
import { bash, hello, session } from "./testing/fixtures.ts";
import type { Handlers, Transport } from "./transport.ts";

it("D1-40: word of an earlier try takes only what that try said", () => {
  let handlers!: Handlers;
  const transport = { open: (h: Handlers) => { handlers = h; }, send: () => true, close: () => undefined, resume: () => undefined } as unknown as Transport;
  const client = new Client({ transport });
  const a = bash("a");
  client.start();
  handlers.onFrames([hello(), { type: "active_processes", cursor: "c", sessions: [session([a])], more: false }]);
  for (const [ref, message] of [["first", "reason A"], ["second", "reason B"]] as const) {
    client.dispatch({ kind: "send", key: a.key, ref, frame: { type: "pending_request_response", ref, message } });
    client.drafts.save(a.key, { reason: message });
  }
  handlers.onFrames([{ type: "receipt", ref: "first", request_id: a.request_id, status: "accepted" }]);
  expect(client.drafts.load(a.key).reason).toBe("reason B");
  handlers.onFrames([{ type: "receipt", ref: "second", request_id: a.request_id, status: "duplicate" }]);
  expect(client.drafts.load(a.key).reason).toBeUndefined();
});
