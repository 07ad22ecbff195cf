import { beforeEach, describe, expect, it, vi } from "vitest";
import { again, turnOn } from "./push";
import { keepSetting, setting } from "./settings";

const KEY = "AQID";

/** A browser with its subscription and its notes. */
function browser() {
  let made = 0;
  let sub: unknown = null;
  const notes = new Map<string, string>();
  const subscribe = () => {
    const endpoint = `https://push.example.com/${++made}`;
    return (sub = {
      endpoint, options: { applicationServerKey: new Uint8Array([1, 2, 3]).buffer },
      toJSON: () => ({ endpoint, keys: { p256dh: "p", auth: "a" } }),
      unsubscribe: () => Promise.resolve(((sub = null), true)),
    });
  };
  const reg = { pushManager: { getSubscription: () => Promise.resolve(sub), subscribe: () => Promise.resolve(subscribe()) } };
  vi.stubGlobal("isSecureContext", true);
  vi.stubGlobal("PushManager", class {});
  vi.stubGlobal("Notification", { permission: "granted", requestPermission: () => Promise.resolve("granted") });
  Object.defineProperty(navigator, "serviceWorker", { configurable: true, value: { ready: Promise.resolve(reg), getRegistration: () => Promise.resolve(reg) } });
  vi.stubGlobal("caches", {
    open: () => Promise.resolve({ put: async (k: string, r: Response) => void notes.set(k, await r.text()) }),
    delete: () => Promise.resolve((notes.clear(), true)),
  });
  return { notes, endpoint: () => (sub as { endpoint: string } | null)?.endpoint };
}

/** The server, as a person signed in there sees it. */
function server(id: string) {
  const told: string[] = [];
  const call = (method: string, path: string, more?: { body?: { endpoint: string } }) => {
    if (path === "/api/me") return Promise.resolve({ principal: { id } });
    if (method === "POST") told.push(more!.body!.endpoint);
    return Promise.resolve({ public_key: KEY, browsers: [], renewal: method === "POST" ? `secret-${id}` : undefined });
  };
  return { told, api: { call } as unknown as Parameters<typeof again>[0] };
}

describe("notifications of a browser", () => {
  beforeEach(() => keepSetting("push", ""));

  it("keeps the secret by which it renews itself", async () => {
    const b = browser();
    await turnOn(server("ada").api, "ada", KEY);
    expect(JSON.parse(b.notes.get("/note")!)).toEqual({ user: "ada", key: KEY, renewal: "secret-ada" });
  });

  it("two people in one browser never share a subscription", async () => {
    browser();
    const ada = server("ada");
    await turnOn(ada.api, "ada", KEY);
    await again(ada.api);
    expect(ada.told).toEqual(["https://push.example.com/1", "https://push.example.com/1"]);
    const bob = server("bob");
    await turnOn(bob.api, "bob", KEY);
    expect(bob.told).toEqual(["https://push.example.com/2"]);
    expect(setting("push")).toBe("bob");
  });

  it("ends the subscription of whoever was there before when somebody else signs in", async () => {
    const b = browser();
    await turnOn(server("ada").api, "ada", KEY);
    const bob = server("bob");
    await again(bob.api);
    expect(bob.told).toEqual([]);
    expect(b.endpoint()).toBeUndefined();
    expect(b.notes.size).toBe(0);
    expect(setting("push")).toBe("");
  });
});
