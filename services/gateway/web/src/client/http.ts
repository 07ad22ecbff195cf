// The HTTP side of the gateway.
import type { Interaction, Principal } from "./wire";

export class HttpError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export interface Api {
  login(token: string): Promise<{ token: string; expires_at: string }>;
  me(): Promise<{ principal?: Principal }>;
  interaction(key: string): Promise<Interaction>;
  interactions(state: "pending" | "closed", limit: number): Promise<Interaction[]>;
  demo(): Promise<{ session_id?: string }>;
  cliLogins(): Promise<{ code: string; name: string; requested_at: string }[]>;
  answerCliLogin(code: string, allow: boolean): Promise<void>;
}

export function httpApi(token: () => string | null, onSignedOut: () => void, base = ""): Api {
  async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const headers: Record<string, string> = {};
    const t = token();
    if (t) headers.Authorization = `Bearer ${t}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const res = await fetch(base + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
      cache: "no-store",
    });
    const text = await res.text();
    let parsed: unknown;
    try {
      parsed = text === "" ? {} : JSON.parse(text);
    } catch {
      parsed = {};
    }
    if (!res.ok) {
      if (res.status === 401 && t) onSignedOut();
      const said = (parsed as { error?: unknown }).error;
      throw new HttpError(res.status, typeof said === "string" && said ? said : `The server answered ${res.status}.`);
    }
    return parsed as T;
  }
  return {
    login: (t) => call("POST", "/api/login", { token: t }),
    me: () => call("GET", "/api/me"),
    interaction: (key) => call("GET", `/api/interactions/${encodeURIComponent(key)}`),
    interactions: async (state, limit) => {
      const r = await call<{ interactions?: Interaction[] | null }>("GET", `/api/interactions?state=${state}&limit=${limit}`);
      return r.interactions ?? [];
    },
    demo: () => call("POST", "/api/demo", {}),
    cliLogins: async () => {
      const r = await call<{ requests?: { code: string; name: string; requested_at: string }[] | null }>("GET", "/api/cli-logins");
      return r.requests ?? [];
    },
    answerCliLogin: async (code, allow) => {
      await call("POST", `/api/cli-logins/${encodeURIComponent(code)}`, { allow });
    },
  };
}
