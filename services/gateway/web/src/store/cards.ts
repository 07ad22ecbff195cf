import type { Beside } from "./helpers";
import type { Client, Drafts, Presence, Say, Store } from "@banksman/client";

/** What the cards need, wherever they stand. */
export interface Cards {
  store: Store;
  client: Client;
  drafts: Drafts;
  /** What of it is before somebody's eyes. */
  presence: Pick<Presence, "watch">;
  /** Who stands ready beside the gateway, where the page can ask. */
  beside?: Beside;
  /** Sends an answer; what becomes of it shows in the state. */
  respond(key: string, say: Say): void;
  /** In a page of somebody else's, which may cut the card off anywhere. */
  embedded: boolean;
  /** Where a session is shown. */
  sessionLink(key: string): { href: string; target?: string; rel?: string };
}

/** Answers of a card: what goes wrong shows in the state, to whoever looks at it. */
export function responder(client: Client): Cards["respond"] {
  return (key, say) => {
    if (!client.item(key)?.closed) client.decide(key, say).catch(() => undefined);
  };
}
