// Joins link and store: what a screen may do, and the timers and fetches that
// belong to it. Components get this object and know no transport.
import { type Api, httpApi, HttpError } from "../client/http";
import { Socket } from "../client/socket";
import { newId } from "../client/timing";
import { dropToken, loadToken } from "../client/token";
import type { ClientFrame, Receipt } from "../client/wire";
import { dropDraft } from "./drafts";
import { pendingCount } from "./state";
import { createStore, type Store } from "./store";

/** What a person says to a request, without the fields that name it. */
export type Say = Pick<ClientFrame, "decision" | "answers" | "content" | "action" | "message" | "updated_input" | "scope" | "option_id">;

export interface App {
  store: Store;
  respond(key: string, say: Say): void;
  /** Fetches an interaction; resolves when it is known, or cannot be. */
  load(key: string): Promise<void>;
  loadHistory(): void;
  follow(session: string): () => void;
  command(frame: Omit<ClientFrame, "ref">): Promise<Receipt>;
  demo(): Promise<string>;
  answerCliLogin(code: string, allow: boolean): Promise<void>;
  retryNow(): void;
  signOut(): void;
}

/** No word for so long: the buttons come back. Milliseconds. */
export const UNSURE_AFTER = 5_000;
const COMMAND_LIMIT = 20_000; // ms

/** The little of a socket that the app needs. */
export interface Link {
  open(): void;
  close(): void;
  send(frame: ClientFrame): boolean;
  resume(): void;
}

export interface AppOptions {
  api?: Api;
  link?: (handlers: Pick<ConstructorParameters<typeof Socket>[0], "onFrames" | "onStatus" | "cursor">) => Link;
  store?: Store;
}

export function createApp(o: AppOptions = {}): App & { start(): void; stop(): void } {
  const store = o.store ?? createStore();
  const signedOut = () => {
    dropToken();
    link.close();
    store.dispatch({ kind: "conn", status: { status: "signed_out" } });
  };
  const api = o.api ?? httpApi(loadToken, signedOut);
  const waiting = new Map<string, (r: Receipt) => void>();
  const followed = new Map<string, number>();
  let extraFor = 0;

  const handlers: Parameters<NonNullable<AppOptions["link"]>>[0] = {
    cursor: () => store.get().cursor,
    onStatus(status) {
      if (status.status === "signed_out") dropToken();
      store.dispatch({ kind: "conn", status });
    },
    onFrames(frames) {
      for (const f of frames) {
        store.dispatch({ kind: "frame", frame: f, now: Date.now() });
        if (f.type === "hello") afterHello();
        if (f.type === "receipt" && f.ref) {
          waiting.get(f.ref)?.(f);
          dropDecidedDraft(f);
        }
      }
      fetchMissing();
    },
  };
  const link: Link = o.link
    ? o.link(handlers)
    : new Socket({ ...handlers, url: socketUrl(), token: loadToken });

  function afterHello(): void {
    for (const session of followed.keys()) subscribe(session);
    api.cliLogins().then(
      (requests) => store.dispatch({ kind: "cli-logins", requests }),
      () => undefined, // the frame tells of new ones; an older server has no such list
    );
  }

  function subscribe(session: string): void {
    const from = store.get().transcripts[session]?.cursor;
    link.send({ type: "subscribe", session_id: session, ...(from ? { from } : {}) });
  }

  // The person's own answer is in: the words are in the record now.
  function dropDecidedDraft(r: Receipt): void {
    const key = store.get().refs[r.ref ?? ""];
    if (key && (r.status === "accepted" || r.status === "duplicate")) dropDraft(key);
  }

  // Endings that we only saw as an absence, and lists longer than a frame holds.
  function fetchMissing(): void {
    const s = store.get();
    if (s.snapshot !== "ready") return;
    for (const [key, item] of Object.entries(s.items)) {
      if (item.closed && item.outcome === undefined && item.load === "idle") void load(key);
    }
    const total = pendingCount(s);
    const listed = Object.values(s.sessions).reduce((n, x) => n + x.pending.length, 0);
    const missing = Object.values(s.sessions).some((x) => x.pendingCount > x.pending.length);
    if (missing && extraFor !== total + listed) {
      extraFor = total + listed;
      api.interactions("pending", 1000).then(
        (interactions) => store.dispatch({ kind: "extra", interactions }),
        () => { extraFor = 0; },
      );
    }
  }

  async function load(key: string): Promise<void> {
    if (store.get().items[key]?.load === "loading") return;
    store.dispatch({ kind: "load", key, state: "loading" });
    await api.interaction(key).then(
      (interaction) => store.dispatch({ kind: "interaction", interaction }),
      () => store.dispatch({ kind: "load", key, state: "failed" }),
    );
  }

  const onVisible = () => {
    if (document.visibilityState === "visible") link.resume();
  };
  const onOnline = () => link.resume();

  return {
    store,
    start() {
      link.open();
      document.addEventListener("visibilitychange", onVisible);
      window.addEventListener("online", onOnline);
      window.addEventListener("pageshow", onVisible);
    },
    stop() {
      link.close();
      document.removeEventListener("visibilitychange", onVisible);
      window.removeEventListener("online", onOnline);
      window.removeEventListener("pageshow", onVisible);
    },
    respond(key, say) {
      const s = store.get();
      const item = s.items[key];
      const old = s.sends[key];
      if (!item || item.closed || old?.state === "sending" || s.conn.status !== "online") return;
      const frame: ClientFrame = {
        type: "pending_request_response",
        session_id: item.summary.session_key,
        request_id: key,
        request_type: item.summary.request_type,
        digest: item.summary.digest,
        ...say,
      };
      // The same answer again keeps its ref: the server knows the repeat as one.
      const same = old !== undefined && JSON.stringify({ ...old.frame, ref: undefined }) === JSON.stringify({ ...frame, ref: undefined });
      const ref = same ? old.ref : newId();
      store.dispatch({ kind: "send", key, ref, frame: { ...frame, ref } });
      if (!link.send({ ...frame, ref })) {
        store.dispatch({ kind: "unsure", ref });
        return;
      }
      setTimeout(() => store.dispatch({ kind: "unsure", ref }), UNSURE_AFTER);
    },
    load,
    loadHistory() {
      if (store.get().history.state === "loading") return;
      store.dispatch({ kind: "history", state: "loading" });
      api.interactions("closed", 50).then(
        (interactions) => store.dispatch({ kind: "history-ready", interactions }),
        () => store.dispatch({ kind: "history", state: "failed" }),
      );
    },
    follow(session) {
      const n = followed.get(session) ?? 0;
      followed.set(session, n + 1);
      if (n === 0) {
        store.dispatch({ kind: "subscribe", session });
        subscribe(session);
      }
      return () => {
        const left = (followed.get(session) ?? 1) - 1;
        if (left > 0) {
          followed.set(session, left);
          return;
        }
        followed.delete(session);
        link.send({ type: "unsubscribe", session_id: session });
      };
    },
    command(frame) {
      const ref = newId();
      return new Promise<Receipt>((resolve) => {
        const end = (r: Receipt) => {
          clearTimeout(timer);
          waiting.delete(ref);
          resolve(r);
        };
        const timer = setTimeout(() => end({ status: "unavailable", error: "The server did not answer. You can try again." }), COMMAND_LIMIT);
        waiting.set(ref, end);
        if (!link.send({ ...frame, ref })) end({ status: "unavailable", error: "There is no connection to the server." });
      });
    },
    async demo() {
      return (await api.demo()).session_id ?? "";
    },
    async answerCliLogin(code, allow) {
      try {
        await api.answerCliLogin(code, allow);
      } catch (e) {
        // Gone meanwhile: expired, or answered in another tab.
        if (!(e instanceof HttpError && e.status === 404)) throw e;
      }
      store.dispatch({ kind: "cli-login-done", code });
    },
    retryNow() {
      if (store.get().conn.status === "stopped") link.open();
      else link.resume();
    },
    signOut: signedOut,
  };
}

function socketUrl(): string {
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/ws`;
}
