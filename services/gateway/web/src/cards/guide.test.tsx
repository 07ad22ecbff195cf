// The page's part of docs/interactive-tools.md: the guide's blocks are held
// against this file.
import { render, screen, waitFor, within } from "@testing-library/react";
import { useEffect } from "react";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Client, DirectTransport, HttpTransport, type Item, type Transport, WebSocketTransport } from "@banksman/client";
import { closed, decision, me, MemoryGateway, processState, summary } from "@banksman/client/testing";
import WebSocket from "ws";
import { serve } from "../../packages/client/test/server";
import { online } from "../testing/harness";
import { mount } from "../testing/mount";
import { Button, inputClass } from "../ui/controls";
import { PayloadBlock } from "./blocks";
import { renderers } from "./Card";
import type { KindProps } from "./kinds";
import { answerViews } from "./Receipt";

// A page has no server's half of it, and this test has both.
vi.mock("ws", async () => {
  const { createRequire } = await import("node:module");
  const ws = createRequire(import.meta.url)("ws") as typeof import("ws");
  return { default: ws, WebSocketServer: ws.WebSocketServer };
});

export function RatingCard({ item, busy, offline, draft, setDraft, respond, bindKeys, notes }: KindProps) {
  const stars = draft.form ?? ""; // a draft survives reloads and a lost race
  const off = busy || offline || stars === "";
  const submit = () => {
    if (!off) respond({ content: `{"stars":${stars}}` }); // JSON as text, as the gateway takes it
  };
  useEffect(() => bindKeys({ submit }));
  return (
    <div className="space-y-4">
      {item.summary.body?.blocks?.map((b, i) => <PayloadBlock key={i} block={b} onSeen={() => undefined} />)}
      <label className="block text-sm font-medium">
        Your rating
        <input type="number" data-testid="stars" className={inputClass} disabled={busy} value={stars} onChange={(e) => setDraft({ form: e.target.value })} />
      </label>
      {notes}
      <div data-actions className="flex justify-between gap-2">
        <Button look="quiet" data-testid="dismiss" disabled={busy || offline} onClick={() => respond({ action: "dismiss" })}>Dismiss</Button>
        <Button look="solid" data-testid="submit" disabled={off} busy={busy} onClick={submit}>Send rating</Button>
      </div>
    </div>
  );
}

export function RatingAnswer({ item }: { item: Item }) {
  const said = item.decision?.content; // over a network JSON as text, so that no number is rounded
  const given = (typeof said === "string" ? JSON.parse(said) : said) as { stars: number } | undefined;
  return given ? <p className="text-sm">{given.stars} stars</p> : null;
}

const wired = { renderers: { rating: RatingCard }, answerViews: { rating: RatingAnswer } };

function rating(id: string) {
  return summary(id, {
    kind: "rating", request_type: "rating", presentation: "questionnaire", tool_name: "", risk: "low", risk_reason: undefined,
    headline: "build-7 asks for a rating", title: "How good is draft 7?",
    body: {
      verbs: ["answer", "clarify", "dismiss"], scopes: [],
      blocks: [{ label: "To be rated", form: "text", text: "Dear readers", lines: 1 }, { label: "Stars", form: "text", text: "5", lines: 1 }],
    },
  });
}

describe("a kind of its own, D0-50 D2-10", () => {
  beforeAll(() => {
    Object.assign(renderers, wired.renderers);
    Object.assign(answerViews, wired.answerViews);
  });
  afterAll(() => {
    delete renderers.rating;
    delete answerViews.rating;
  });
  const el = (id: string) => screen.getByTestId(id) as HTMLInputElement;

  it("D2-10: a rating is shown, given, refused with the field's problem, and given again", async () => {
    const h = online([rating("r")]);
    const { user, push } = mount(h);
    expect(screen.getByTestId("card-r")).toHaveTextContent("Dear readers");
    expect(el("submit")).toBeDisabled();
    await user.type(el("stars"), "6");
    await user.click(el("submit"));
    expect(h.answers()[0]).toMatchObject({ request_type: "rating", digest: "digest-r", content: '{"stars":6}' });
    push({ type: "receipt", ref: h.answers()[0]!.ref, status: "invalid", fields: [{ field: "content.stars", problem: "must be 1 to 5" }] });
    expect(screen.getByTestId("card-r")).toHaveTextContent("content.stars must be 1 to 5");
    expect(el("stars").value).toBe("6");
  });

  it.each([["over a network", '{"stars":4}'], ["in one process", { stars: 4 }]])("D2-10: what became of it stays as one line with the answer, %s", (_, content) => {
    const r = rating("r");
    const h = online([r]);
    const { push } = mount(h);
    push(processState([], { closed: [closed(r, "answered", { content })] }));
    const receipt = screen.getByTestId("receipt-r");
    expect(receipt).toHaveTextContent("Answered by you");
    expect(within(receipt).getByText("4 stars")).toBeVisible();
    expect(screen.queryByTestId("stars")).toBeNull();
  });

  it.each<[string, (gateway: string, memory: MemoryGateway) => Transport]>([
    ["a WebSocket", (gateway) => new WebSocketTransport({ gateway, token: () => "T", create: (url) => new WebSocket(url) as unknown as globalThis.WebSocket })],
    ["HTTP", (gateway) => new HttpTransport({ gateway, token: () => "T" })],
    ["Direct", (_, memory) => new DirectTransport(memory.host(me))],
  ])("D2-10: the answer is drawn from what really comes over %s, to who gave it and to who watched", async (_, transport) => {
    const memory = new MemoryGateway();
    const served = await serve(memory, new Map([["T", me]]));
    const clients = [0, 1].map(() => new Client({ transport: transport(served.url, memory) }));
    try {
      const r = rating("r");
      memory.ask(r);
      for (const c of clients) c.start();
      await Promise.all(clients.map((c) => c.ready()));
      await clients[0]!.decide(r.key, { content: '{"stars":4}' });
      for (const c of clients) {
        await waitFor(() => expect(c.item(r.key)?.decision?.content).toBeDefined());
        const { unmount } = render(<RatingAnswer item={c.item(r.key)!} />);
        expect(screen.getByText("4 stars")).toBeVisible();
        unmount();
      }
    } finally {
      for (const c of clients) c.stop();
      await served.close();
    }
  });

  it("D2-10: what nobody chose reads as that", () => {
    const r = rating("r");
    const h = online([r]);
    const { push } = mount(h);
    push({ type: "receipt", ref: "none", request_id: r.key, status: "expired", decision: decision(r, "expired") });
    push(processState([], { closed: [closed(r, "expired")] }));
    expect(screen.getByTestId("receipt-r")).toHaveTextContent("Expired, nobody answered");
  });
});
