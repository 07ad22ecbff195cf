// Calls of the gateway over HTTP.
import { GatewayError } from "./errors.ts";
import { parse } from "./parse.ts";
import type { Call } from "./transport.ts";
import type { Decision, Field, Interaction, MadeRule, Me, NewRule, Outcome, Rule, RuleList, RulePreview } from "./wire.ts";

export interface GatewayOptions {
  /** Where the gateway is, such as http://127.0.0.1:8080; empty for the page's own server. */
  gateway?: string;
  /** The session token, null where nobody is signed in. */
  token: () => string | null;
  fetch?: typeof fetch;
}

export interface CliLoginRequest {
  code: string;
  name: string;
  requested_at: string;
}

/** What decisions are searched by; an absent field does not filter. */
export interface DecisionSearch {
  /** Words that must all appear; "in quotes" together. */
  q?: string;
  outcome?: readonly Outcome[];
  kind?: string;
  tool?: string;
  project?: string;
  agent?: string;
  who?: string;
  session?: string;
  /** Id of a rule that decided. */
  rule?: string;
  /** When it was decided, RFC 3339: from belongs to it, until does not. */
  from?: string;
  until?: string;
  /** The next of an earlier page. */
  before?: string;
  limit?: number;
}

/** A page of decisions, newest first. It may be empty and have a next: one search reads a bounded part of the record. */
export interface DecisionPage {
  interactions: Interaction[];
  /** Absent where there is nothing older. */
  next?: string;
  /** How far back this search looked. */
  read_to?: string;
}

/** The gateway's HTTP interface. Everything but success is thrown as a GatewayError. */
export class Gateway {
  private readonly base: string;
  constructor(
    private readonly o: GatewayOptions,
    private readonly onSignedOut: () => void = () => undefined,
  ) {
    this.base = (o.gateway ?? "").replace(/\/+$/, "");
  }

  /** One request; the body of an answer that is not success is read and thrown. */
  async send(method: string, path: string, init: { body?: unknown; headers?: Record<string, string>; signal?: AbortSignal } = {}): Promise<Response> {
    const headers: Record<string, string> = { ...init.headers };
    const token = this.o.token();
    if (token) headers.Authorization = `Bearer ${token}`;
    if (init.body !== undefined) headers["Content-Type"] = "application/json";
    const res = await (this.o.fetch ?? fetch)(this.base + path, {
      method,
      headers,
      body: init.body === undefined ? undefined : JSON.stringify(init.body),
      credentials: "same-origin", // over TLS a cookie has the session; there is none elsewhere
      cache: "no-store",
      signal: init.signal,
    });
    if (res.ok) return res;
    if (res.status === 401 && token) this.onSignedOut();
    const said = safely(await res.text()) as { code?: unknown; error?: unknown; fields?: Field[]; decision?: Decision };
    throw new GatewayError(
      res.status,
      typeof said.code === "string" ? said.code : "",
      typeof said.error === "string" && said.error !== "" ? said.error : `The server answered ${res.status}.`,
      Array.isArray(said.fields) ? said.fields : [],
      said.decision,
    );
  }

  async call<T>(method: string, path: string, init: { body?: unknown; signal?: AbortSignal } = {}): Promise<T> {
    const res = await this.send(method, path, init);
    return safely(await res.text()) as T;
  }

  /** Exchanges the one-use token of a login link. */
  login(token: string, o: Call = {}): Promise<{ token: string; expires_at: string }> {
    return this.call("POST", "/api/login", { body: { token }, ...o });
  }

  async logout(o: Call = {}): Promise<void> {
    await this.call("POST", "/api/logout", { body: {}, ...o });
  }

  /** Searches the record of decisions, which reaches further back than the state does. */
  async decisions(search: DecisionSearch = {}, o: Call = {}): Promise<DecisionPage> {
    const query = new URLSearchParams({ state: "decided" });
    for (const [name, value] of Object.entries(search) as [string, string | number | readonly string[] | undefined][]) {
      for (const v of Array.isArray(value) ? value : [value]) if (v !== undefined && v !== "") query.append(name, String(v));
    }
    const r = await this.call<Partial<DecisionPage>>("GET", `/api/interactions?${query}`, o);
    return { ...r, interactions: r.interactions ?? [] };
  }

  me(o: Call = {}): Promise<Me> {
    return this.call("GET", "/api/me", o);
  }

  interaction(key: string, o: Call = {}): Promise<Interaction> {
    return this.call("GET", `/api/interactions/${encodeURIComponent(key)}`, o);
  }

  async interactions(state: "pending" | "closed", limit: number, o: Call = {}): Promise<Interaction[]> {
    const r = await this.call<{ interactions?: Interaction[] | null }>("GET", `/api/interactions?state=${state}&limit=${limit}`, o);
    return r.interactions ?? [];
  }

  demo(o: Call = {}): Promise<{ session_id?: string }> {
    return this.call("POST", "/api/demo", { body: {}, ...o });
  }

  /** The rules that one may see, those in force first. */
  async rules(o: Call = {}): Promise<Rule[]> {
    return (await this.call<Partial<RuleList>>("GET", "/api/rules", o)).rules ?? [];
  }

  /** What a rule would be and decide; nothing is made. */
  previewRule(wish: NewRule, o: Call = {}): Promise<RulePreview> {
    return this.call("POST", "/api/rules/preview", { body: wish, ...o });
  }

  makeRule(wish: NewRule, o: Call = {}): Promise<MadeRule> {
    return this.call("POST", "/api/rules", { body: wish, ...o });
  }

  async revokeRule(id: string, o: Call = {}): Promise<void> {
    await this.call("DELETE", `/api/rules/${encodeURIComponent(id)}`, o);
  }

  async cliLogins(o: Call = {}): Promise<CliLoginRequest[]> {
    const r = await this.call<{ requests?: CliLoginRequest[] | null }>("GET", "/api/cli-logins", o);
    return r.requests ?? [];
  }

  async answerCliLogin(code: string, allow: boolean, o: Call = {}): Promise<void> {
    await this.call("POST", `/api/cli-logins/${encodeURIComponent(code)}`, { body: { allow }, ...o });
  }
}

function safely(text: string): unknown {
  try {
    const v = text === "" ? {} : parse(text);
    return v !== null && typeof v === "object" ? v : {};
  } catch {
    return {};
  }
}
