import { describe, expect, it, vi } from "vitest";
import { bash, closed, hello, processState, session } from "@banksman/client/testing";
import { harness } from "../testing/harness";
import { keepPlace, takePlace } from "../ui/route";
import { Bell } from "./bell";
import { isNewer } from "./shell";

const now = Date.now();
const ago = (ms: number) => new Date(now - ms).toISOString();

/** Tabs of one browser: one storage, one set of locks. */
function tabs(n: number, more: { on?: () => boolean; ready?: (i: number) => boolean } = {}) {
  const kept = new Map<string, string>();
  let turn = Promise.resolve<unknown>(undefined);
  const locks = {
    request: (_name: string, f: () => unknown) => (turn = turn.then(() => f())),
  } as unknown as LockManager;
  const rings: number[] = [];
  const list = Array.from({ length: n }, (_, i) => {
    const h = harness();
    new Bell(h.app.client, {
      on: more.on ?? (() => true), ready: () => more.ready?.(i) ?? true, ring: () => void rings.push(i), now: () => now, locks,
      storage: { getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => void kept.set(k, v) },
    }).start();
    h.status({ status: "online" });
    h.push(hello({ server_time: new Date(Date.now()).toISOString() }), { type: "active_processes", cursor: "c", sessions: [session([])], more: false });
    return h;
  });
  const settled = async () => {
    await turn;
    await new Promise((r) => setTimeout(r));
    return rings.length;
  };
  return { list, settled };
}

describe("sound", () => {
  it("B-70: five tabs ring once for one request, and once more for the next", async () => {
    const { list, settled } = tabs(5);
    const a = bash("a", "ls", { created_at: ago(100) });
    for (const h of list) h.push(processState([a]));
    expect(await settled()).toBe(1);
    for (const h of list) h.push(processState([a, bash("b", "ls", { created_at: ago(50) })]));
    expect(await settled()).toBe(2);
  });

  it("B-70: neither a snapshot rings, nor what a reconnect brings, nor what is old", async () => {
    const { list, settled } = tabs(1);
    const [h] = list;
    const fresh = bash("a", "ls", { created_at: ago(100) });
    h!.push(hello({ server_time: new Date(now).toISOString() }), { type: "active_processes", cursor: "c", sessions: [session([fresh])], more: false });
    h!.push(processState([fresh]));
    h!.push(processState([fresh, bash("old", "ls", { created_at: ago(60_000) })]));
    expect(await settled()).toBe(0);
  });

  it("what has ended in the same breath does not ring", async () => {
    const { list, settled } = tabs(1);
    const a = bash("a", "ls", { created_at: ago(100) });
    list[0]!.push(processState([], { closed: [closed(a, "denied")] }), processState([a]));
    expect(await settled()).toBe(0);
  });

  it("a tab that cannot be heard leaves it to one that can", async () => {
    const { list, settled } = tabs(3, { ready: (i) => i === 2 });
    for (const h of list) h.push(processState([bash("a", "ls", { created_at: ago(100) })]));
    expect(await settled()).toBe(1);
  });

  it("is off unless somebody wants it", async () => {
    const h = harness();
    const ring = vi.fn();
    new Bell(h.app.client, { ready: () => true, ring, now: () => now }).start();
    h.status({ status: "online" });
    h.push(hello(), { type: "active_processes", cursor: "c", sessions: [session([])], more: false }, processState([bash("a", "ls", { created_at: ago(100) })]));
    await new Promise((r) => setTimeout(r));
    expect(ring).not.toHaveBeenCalled();
  });
});

describe("a newer server", () => {
  const html = '<script type="module" crossorigin src="/assets/index-abc.js"></script>';
  it("is one whose page begins with another script", () => {
    expect(isNewer(html, "/assets/index-abc.js")).toBe(false);
    expect(isNewer(html, "/assets/index-def.js")).toBe(true);
    expect(isNewer("", "/assets/index-def.js")).toBe(false);
    expect(isNewer("<p>a proxy's own page</p>", "/assets/index-def.js")).toBe(false);
    expect(isNewer(html, "")).toBe(false);
  });
});

describe("the place before a sign-in", () => {
  it("is told once, not after a quarter of an hour, and only inside of the app", () => {
    keepPlace("#/i/a", now);
    expect(takePlace(now + 1000)).toBe("#/i/a");
    expect(takePlace(now + 1000)).toBe("");
    keepPlace("#/i/a", now);
    expect(takePlace(now + 16 * 60_000)).toBe("");
    localStorage.setItem("banksman.after", JSON.stringify({ hash: "//evil.example", at: now }));
    expect(takePlace(now)).toBe("");
  });
});
