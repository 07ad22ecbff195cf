// Clients that elements of one page share: as many elements as there are, one
// connection for each gateway and token.
import { Client, HttpTransport, LoginToken, pageStorage, Presence, WebSocketTransport } from "@banksman/client";

export interface Link {
  client: Client;
  presence: Presence;
  /** Of the gateway's own page, for links; empty where this page is its. */
  gateway: string;
  /** Each draws an element anew. The first of them speaks for this client to screen readers: one is enough. */
  speakers: Set<() => void>;
}

interface Shared extends Link {
  users: number;
}

const shared = new Map<string, Shared>();

export interface Where {
  /** The gateway's address; empty for the page's own server. */
  src: string;
  /** A session token; empty takes the one that the gateway's own page has stored. */
  token: string;
  transport: string;
}

/** Takes up a connection, or shares the one that is there; release gives it back. */
export function acquire(w: Where): { link: Link; release: () => void } {
  const gateway = w.src.replace(/\/+$/, "");
  const name = JSON.stringify([gateway, w.token, w.transport]);
  let s = shared.get(name);
  if (!s) {
    const storage = pageStorage();
    const own = new LoginToken(storage);
    // The stored token is for the server that this page comes from, and no other.
    const sameServer = gateway === "" || new URL(gateway, location.href).origin === location.origin;
    const token = () => w.token || (sameServer ? own.get() : null);
    const o = { gateway, token };
    const client = new Client({ transport: w.transport === "http" ? new HttpTransport(o) : new WebSocketTransport(o), storage });
    s = { client, presence: new Presence(client), gateway, speakers: new Set(), users: 0 };
    shared.set(name, s);
    client.start();
  }
  const taken = s;
  taken.users++;
  return {
    link: taken,
    release() {
      if (--taken.users > 0) return;
      // An element that moves within the page leaves and comes back at once.
      setTimeout(() => {
        if (taken.users > 0 || shared.get(name) !== taken) return;
        shared.delete(name);
        taken.client.stop();
      });
    },
  };
}
