import type { Client, Decision, Item, Outcome } from "@banksman/client";
import { isMe, Presence } from "@banksman/client";
import { StrictMode } from "react";
import { createRoot, type Root } from "react-dom/client";
import { type Cards, responder } from "../../../src/store/cards";
import { CardsContext } from "../../../src/ui/context";
import { sessionHref } from "../../../src/ui/route";
import { acquire, type Link } from "./link";
import { styles } from "./sheet";
import { Count, View } from "./view";

/** How many requests wait. */
export type PendingEvent = CustomEvent<{ count: number }>;

/** A request ended, by whoever. */
export type DecidedEvent = CustomEvent<{ key: string; request_id: string; session_key: string; outcome?: Outcome; decision?: Decision; mine: boolean }>;

/**
 * What both elements share. Attributes: src (the gateway; without it the page's
 * own server), token (a session token), transport (http for server-sent events).
 * Properties: token, which need not stand in the document, and client, a client
 * of the page's own, which then belongs to the page.
 */
abstract class BanksmanElement extends HTMLElement {
  private drawn: Root | undefined;
  private link: Link | undefined;
  private leave: (() => void) | undefined;
  private ownClient: Client | undefined;
  private ownToken = "";

  get client(): Client | undefined {
    return this.ownClient ?? this.link?.client;
  }

  set client(c: Client | undefined) {
    this.ownClient = c;
    this.renew();
  }

  get token(): string {
    return this.ownToken || (this.getAttribute("token") ?? "");
  }

  set token(t: string | undefined) {
    this.ownToken = t ?? "";
    this.renew();
  }

  connectedCallback(): void {
    // Set before this class was there: they hide its own.
    for (const name of ["client", "token"] as const) {
      if (!Object.hasOwn(this, name)) continue;
      const value: unknown = this[name];
      delete this[name];
      Object.assign(this, { [name]: value });
    }
    this.begin();
  }

  disconnectedCallback(): void {
    this.end();
  }

  attributeChangedCallback(name: string, before: string | null, after: string | null): void {
    if (before === after) return;
    if (name === "interaction") this.draw();
    else this.renew();
  }

  /** The interaction to show; null for all that waits. */
  protected abstract itemKey(): string | null;

  private renew(): void {
    if (!this.leave) return;
    this.end();
    this.begin();
  }

  private begin(): void {
    if (this.leave || !this.isConnected) return;
    let release: () => void = () => undefined;
    if (this.ownClient) this.link = { client: this.ownClient, presence: new Presence(this.ownClient), gateway: this.getAttribute("src") ?? "", speakers: new Set() };
    else {
      const got = acquire({ src: this.getAttribute("src") ?? "", token: this.token, transport: this.getAttribute("transport") ?? "" });
      this.link = got.link;
      release = got.release;
    }
    const { link } = this;
    link.speakers.add(this.turn);
    const off = link.client.on("closed", (item) => this.tellDecided(item));
    this.leave = () => {
      off();
      link.speakers.delete(this.turn);
      first(link.speakers)?.(); // it may have become the one that speaks
      release();
    };
    const shadow = this.shadowRoot ?? this.attachShadow({ mode: "open" });
    shadow.adoptedStyleSheets = [styles()];
    const place = document.createElement("div");
    shadow.replaceChildren(place);
    this.drawn = createRoot(place);
    this.draw();
  }

  private end(): void {
    this.leave?.();
    this.leave = undefined;
    this.drawn?.unmount();
    this.drawn = undefined;
    this.link = undefined;
  }

  private draw(): void {
    const { link } = this;
    if (!link || !this.drawn) return;
    const { client, presence, gateway } = link;
    const cards: Cards = {
      client,
      store: client.store,
      drafts: client.drafts,
      presence,
      respond: responder(client),
      embedded: true,
      sessionLink: (key) => ({ href: `${gateway}/${sessionHref(key)}`, target: "_blank", rel: "noreferrer" }),
    };
    this.drawn.render(
      <StrictMode>
        <CardsContext value={cards}>
          <View itemKey={this.itemKey()} gateway={gateway} speaks={first(link.speakers) === this.turn} />
          <Count tell={this.tellPending} />
        </CardsContext>
      </StrictMode>,
    );
  }

  private readonly turn = (): void => this.draw();

  private readonly tellPending = (count: number): void => {
    this.tell("banksman-pending", { count });
  };

  private tellDecided(item: Item): void {
    const { key, request_id, session_key } = item.summary;
    const only = this.itemKey();
    if (only !== null && only !== key) return;
    const { outcome, decision } = item;
    this.tell("banksman-decided", { key, request_id, session_key, outcome, decision, mine: isMe(this.client!.state, decision?.principal) });
  }

  private tell(type: string, detail: object): void {
    this.dispatchEvent(new CustomEvent(type, { detail, bubbles: true, composed: true }));
  }
}

function first<T>(set: Set<T>): T | undefined {
  return set.values().next().value;
}

/** All that waits, as an inbox. */
export class BanksmanInbox extends BanksmanElement {
  static readonly observedAttributes = ["src", "token", "transport"];

  protected itemKey(): null {
    return null;
  }
}

/** One interaction, named by its key in the attribute interaction. */
export class BanksmanInteraction extends BanksmanElement {
  static readonly observedAttributes = ["src", "token", "transport", "interaction"];

  protected itemKey(): string {
    return this.getAttribute("interaction") ?? "";
  }
}
