// What a screen may do: the client, and what belongs to this page alone.
// Components get this object and know no transport.
import { Client, type Command, Gateway, GatewayError, LoginToken, NotConnectedError, NoWordError, pageStorage, Presence, type Receipt, resumeWithPage, type Transport, WebSocketTransport } from "@banksman/client";
import { sessionHref } from "../ui/route";
import { Bell } from "./bell";
import { type Cards, responder } from "./cards";
import { Beside } from "./helpers";
import { Pinned } from "./pinned";
import { keepPushes, watchShell } from "./shell";

export interface App extends Cards {
  command(command: Command): Promise<Receipt>;
  /** What the gateway tells and takes beside the state: history, people, tokens. */
  gateway: Pick<Api, "decisions" | "call">;
  demo(): Promise<string>;
  answerCliLogin(code: string, allow: boolean): Promise<void>;
  rules: RulesApi;
  signOut(): void;
}

export type RulesApi = Pick<Gateway, "rules" | "previewRule" | "makeRule" | "revokeRule">;

export type Api = Pick<Gateway, "demo" | "cliLogins" | "answerCliLogin" | "decisions" | "call"> & RulesApi;

const storage = pageStorage();
const pinned = new Pinned(storage);

/** The session token of this page. */
export const login = new LoginToken(pinned);

export interface AppOptions {
  api?: Api;
  transport?: Transport;
  /** Begins the page anew, for somebody else. */
  reload?: () => void;
}

export function createApp(o: AppOptions = {}): App & { start(): void; stop(): void } {
  const client = new Client({ transport: o.transport ?? new WebSocketTransport({ token: login.get }), storage });
  const leaveNow = () => client.signOut();
  const api = o.api ?? new Gateway({ token: login.get }, leaveNow);
  // The session ends on the server, too; where it cannot be reached, here at least.
  const signOut = () => {
    api.call("POST", "/api/logout", { body: {} }).catch(() => undefined);
    leaveNow();
  };
  let leave: (() => void) | undefined;
  let pushed = false;
  const reload = o.reload ?? (() => location.reload());
  let owner = "";
  client.on("connection", (c) => {
    if (c.status === "signed_out") login.drop();
  });
  client.on("frame", (f) => {
    if (f.type !== "hello") return;
    // Screens hold things of the one before; a page of its own holds none.
    if (owner !== "" && owner !== client.drafts.owner) reload();
    owner = client.drafts.owner;
    if (!pushed) keepPushes(api);
    pushed = true;
    api.cliLogins().then(
      (requests) => client.dispatch({ kind: "cli-logins", requests }),
      () => undefined, // the frame tells of new ones; an older server has no such list
    );
  });
  return {
    store: client.store,
    client,
    drafts: client.drafts,
    presence: new Presence(client),
    beside: new Beside(client, api),
    respond: responder(client),
    embedded: false,
    gateway: api,
    sessionLink: (key) => ({ href: sessionHref(key) }),
    start() {
      client.start();
      const ends = [resumeWithPage(client), new Bell(client).start(), watchShell(client), pinned.watch(reload)];
      leave = () => ends.forEach((end) => end());
    },
    stop() {
      leave?.();
      client.stop();
    },
    rules: api,
    async command(command) {
      try {
        return await client.command(command);
      } catch (e) {
        if (e instanceof NotConnectedError) return { status: "unavailable", error: "There is no connection to the server." };
        if (e instanceof NoWordError) return { status: "unavailable", error: "The server did not answer. You can try again." };
        throw e;
      }
    },
    async demo() {
      return (await api.demo()).session_id ?? "";
    },
    async answerCliLogin(code, allow) {
      try {
        await api.answerCliLogin(code, allow);
      } catch (e) {
        // Gone meanwhile: expired, or answered in another tab.
        if (!(e instanceof GatewayError && e.status === 404)) throw e;
      }
      client.dispatch({ kind: "cli-login-done", code });
    },
    signOut,
  };
}
