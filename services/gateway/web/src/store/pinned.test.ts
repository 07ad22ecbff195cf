import { LoginToken, memoryStorage } from "@banksman/client";
import { describe, expect, it, vi } from "vitest";
import { ada, hello } from "@banksman/client/testing";
import { createApp } from "./app";
import { Pinned } from "./pinned";

const session = (token: string) => JSON.stringify({ token, expires_at: "2099-01-01T00:00:00Z" });
const NAME = "banksman.session";

describe("the sign-in of this page", () => {
  it("stays whose the page was opened by, whoever signs in beside it", () => {
    const shared = memoryStorage();
    shared.setItem(NAME, session("a"));
    const pinned = new Pinned(shared);
    const login = new LoginToken(pinned);
    expect(login.get()).toBe("a");
    expect(pinned.replaced()).toBe(false);
    shared.setItem(NAME, session("b"));
    expect(login.get()).toBe("a");
    expect(pinned.replaced()).toBe(true);
    // The end of the old session takes nothing from who signed in since.
    login.drop();
    expect(login.get()).toBeNull();
    expect(new LoginToken(shared).get()).toBe("b");
  });

  it("ends with its own sign-out, here and in the storage", () => {
    const shared = memoryStorage();
    const pinned = new Pinned(shared);
    const login = new LoginToken(pinned);
    expect(login.get()).toBeNull();
    login.save({ token: "a", expires_at: "2099-01-01T00:00:00Z" });
    expect(login.get()).toBe("a");
    expect(pinned.replaced()).toBe(false);
    login.drop();
    expect(shared.getItem(NAME)).toBeNull();
    expect(pinned.replaced()).toBe(false);
  });

  it.each(["storage", "pageshow"])("begins the page anew when another tab has replaced it: %s", (event) => {
    const shared = memoryStorage();
    const pinned = new Pinned(shared);
    const anew = vi.fn();
    pinned.getItem(NAME);
    const end = pinned.watch(anew);
    shared.setItem("another", "thing");
    window.dispatchEvent(new Event(event));
    expect(anew).not.toHaveBeenCalled();
    shared.setItem(NAME, session("b"));
    window.dispatchEvent(new Event(event));
    expect(anew).toHaveBeenCalledTimes(1);
    end();
    window.dispatchEvent(new Event(event));
    expect(anew).toHaveBeenCalledTimes(1);
  });

  it("begins the page anew when the server says that it is somebody else's", () => {
    let frames!: (list: ReturnType<typeof hello>[]) => void;
    const reload = vi.fn();
    const never = () => new Promise<never>(() => undefined);
    const app = createApp({
      reload,
      api: new Proxy({}, { get: () => never }) as never,
      transport: { open: (h) => { frames = (list) => h.onFrames(list); }, close: () => undefined, resume: () => undefined, send: () => true, interaction: never, interactions: never },
    });
    app.start();
    frames([hello()]);
    frames([hello()]);
    expect(reload).not.toHaveBeenCalled();
    frames([hello({ principal: ada })]);
    expect(reload).toHaveBeenCalledTimes(1);
    app.stop();
  });
});
