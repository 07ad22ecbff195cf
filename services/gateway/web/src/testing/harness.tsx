// An app over a fake transport: what the page sends is recorded, what the
// server says is pushed in as frames.
import type { ClientFrame, ConnStatus, DecisionPage, DecisionSearch, Handlers, InFrame, Interaction, MadeRule, NewRule, Rule, RulePreview, Summary, Transport } from "@banksman/client";
import { hello, session } from "@banksman/client/testing";
import { type Api, type App, createApp } from "../store/app";

export interface Harness {
  app: App & { start(): void; stop(): void };
  sent: ClientFrame[];
  api: FakeApi;
  /** Answers of ours, the newest last. */
  answers(): ClientFrame[];
  push(...frames: InFrame[]): void;
  status(s: ConnStatus): void;
  /** Whether the link takes frames. */
  up: boolean;
}

export interface FakeApi extends Api, Pick<Transport, "interaction" | "interactions"> {
  calls: string[];
  known: Map<string, Interaction>;
  closed: Interaction[];
  codes: { code: string; name: string; requested_at: string }[];
  fail: boolean;
  list: Rule[];
  wishes: NewRule[];
  preview?: (wish: NewRule) => RulePreview;
  make?: (wish: NewRule) => MadeRule;
  /** Answers of the gateway's other addresses, by method and path. */
  replies: Record<string, unknown>;
  /** Pages of the history, by what was asked. */
  pages: (search: DecisionSearch) => DecisionPage;
}

function fakeApi(): FakeApi {
  const a: FakeApi = {
    calls: [], list: [], wishes: [], known: new Map(), closed: [], codes: [], fail: false, replies: {}, pages: () => ({ interactions: a.closed }),
    decisions(search = {}) {
      a.calls.push(`decisions ${JSON.stringify(search)}`);
      return a.fail ? Promise.reject(new Error("down")) : Promise.resolve(a.pages(search));
    },
    call<T>(method: string, path: string, init: { body?: unknown } = {}) {
      a.calls.push(`${method} ${path}${init.body === undefined ? "" : ` ${JSON.stringify(init.body)}`}`);
      const reply = a.replies[`${method} ${path}`];
      return reply === undefined ? Promise.reject(new Error(`nothing at ${path}`)) : Promise.resolve(reply as T);
    },
    interaction(key) {
      a.calls.push(`interaction ${key}`);
      const i = a.known.get(key);
      return i && !a.fail ? Promise.resolve(i) : Promise.reject(new Error("gone"));
    },
    interactions(state) {
      a.calls.push(`interactions ${state}`);
      return a.fail ? Promise.reject(new Error("down")) : Promise.resolve(state === "closed" ? a.closed : [...a.known.values()]);
    },
    demo: () => Promise.resolve({ session_id: "default.agents.demo" }),
    cliLogins: () => Promise.resolve(a.codes),
    rules: () => Promise.resolve(a.list),
    previewRule(wish) {
      a.wishes.push(wish);
      return a.preview ? Promise.resolve(a.preview(wish)) : Promise.reject(new Error("no preview"));
    },
    makeRule(wish) {
      a.calls.push(`make ${JSON.stringify(wish)}`);
      return a.make ? Promise.resolve(a.make(wish)) : Promise.reject(new Error("not made"));
    },
    revokeRule(id) {
      a.calls.push(`revoke ${id}`);
      return a.fail ? Promise.reject(new Error("down")) : Promise.resolve();
    },
    answerCliLogin(code, allow) {
      a.calls.push(`cli ${code} ${allow}`);
      return Promise.resolve();
    },
  };
  return a;
}

export function harness(): Harness {
  const sent: ClientFrame[] = [];
  const api = fakeApi();
  let handlers: Handlers | undefined;
  const transport: Transport = {
    open: (h) => void (handlers = h),
    close: () => undefined,
    resume: () => undefined,
    send(f) {
      if (!h.up) return false;
      sent.push(f);
      return true;
    },
    interaction: api.interaction,
    interactions: api.interactions,
  };
  const h: Harness = {
    sent, api, up: true,
    app: createApp({ api, transport }),
    answers: () => sent.filter((f) => f.type === "pending_request_response"),
    push: (...frames) => handlers!.onFrames(frames),
    status: (s) => handlers!.onStatus(s),
  };
  h.app.client.start();
  return h;
}

/** Online, with these requests waiting in one session. */
export function online(pending: Summary[] = []): Harness {
  const h = harness();
  h.status({ status: "online" });
  h.push(hello({ server_time: new Date().toISOString() }), { type: "active_processes", cursor: "c0", sessions: [session(pending)], more: false });
  return h;
}
