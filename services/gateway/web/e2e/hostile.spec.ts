// A page of somebody else in the browser of somebody who is signed in: on another port
// of this machine, as an agent's preview server would be, and by another name.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "@playwright/test";
import { command, inSession } from "./support/requests.ts";
import { expect, SESSION, test as base } from "./support/test.ts";
import { App } from "./support/ui.ts";

/** A site that notes who comes. */
async function site(host: string): Promise<{ url: string; visits: string[]; server: Server }> {
  const visits: string[] = [];
  const server = createServer((req, res) => {
    visits.push(`${req.method} ${req.url}`);
    res.setHeader("Content-Type", "text/html").end("<!doctype html><title>hostile</title><p>You have won");
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return { url: `http://${host}:${(server.address() as AddressInfo).port}`, visits, server };
}

interface Evil { url: string; visits: string[] }

// A browser of its own: what the hostile page does in it is no fault of ours.
const test = base.extend<{ evil: (host: string) => Promise<Evil>; app: App }>({
  evil: async ({}, use) => {
    const servers: Server[] = [];
    await use(async (host) => {
      const { server, ...evil } = await site(host);
      servers.push(server);
      return evil;
    });
    for (const s of servers) {
      s.close();
      s.closeAllConnections();
    }
  },
  app: async ({ product, browser }, use) => {
    const context = await browser.newContext();
    const app = new App(await context.newPage(), product);
    await app.signIn();
    await use(app);
    await context.close();
  },
});

/** What the page tries, each with what came of it. */
async function attack(page: Page, url: string, key: string, digest: string, link: string): Promise<Record<string, string>> {
  return await page.evaluate(async ({ url, key, digest, link }) => {
    const out: Record<string, string> = {};
    const tried = async (name: string, what: () => Promise<string>) => {
      out[name] = await Promise.race([what().catch((e: unknown) => `refused: ${String(e)}`), new Promise<string>((done) => setTimeout(() => done("nothing"), 10_000))]);
    };
    const decide = `${url}/api/interactions/${encodeURIComponent(key)}/decision`;
    const body = JSON.stringify({ decision: "allow", digest });
    const element = (tag: string, set: (e: HTMLElement) => void) => new Promise<string>((done) => {
      const e = document.createElement(tag);
      e.onload = () => done("loaded");
      e.onerror = () => done("refused");
      set(e);
      document.body.append(e);
    });
    await tried("read the list", async () => (await fetch(`${url}/api/interactions`, { credentials: "include" })).text());
    await tried("read the page", async () => (await fetch(`${url}/`, { credentials: "include" })).text());
    await tried("decide", async () => (await fetch(decide, { method: "POST", body, credentials: "include", headers: { "Content-Type": "application/json" } })).text());
    await tried("decide without asking first", async () => (await fetch(decide, { method: "POST", body, mode: "no-cors", credentials: "include", headers: { "Content-Type": "text/plain" } })).type);
    await tried("sign in", async () => (await fetch(`${url}/api/login`, { method: "POST", body: JSON.stringify({ token: link }), mode: "no-cors", headers: { "Content-Type": "text/plain" } })).type);
    await tried("a form", async () => {
      const target = document.createElement("iframe");
      target.name = "target";
      document.body.append(target);
      const form = document.createElement("form");
      Object.assign(form, { method: "POST", action: decide, enctype: "text/plain", target: "target" });
      const input = document.createElement("input");
      Object.assign(input, { name: `{"decision":"allow","digest":"${digest}","message":"`, value: `"}` });
      form.append(input);
      document.body.append(form);
      const came = new Promise<string>((done) => { target.onload = () => done("came back"); });
      form.submit();
      return await came;
    });
    await tried("a socket", () => new Promise((done) => {
      const ws = new WebSocket(`${url.replace("http", "ws")}/api/ws`);
      ws.onopen = () => done("open");
      ws.onerror = () => done("refused");
    }));
    await tried("a stream", () => new Promise((done) => {
      const es = new EventSource(`${url}/api/events`, { withCredentials: true });
      es.onopen = () => done("open");
      es.onerror = () => { es.close(); done("refused"); };
    }));
    await tried("a script of ours", () => element("script", (e) => { (e as HTMLScriptElement).src = `${url}/signin.js`; }));
    await tried("an answer as a script", () => element("script", (e) => { (e as HTMLScriptElement).src = `${url}/api/interactions`; }));
    await tried("an answer as a picture", () => element("img", (e) => { (e as HTMLImageElement).src = `${url}/favicon.svg`; }));
    await tried("a frame", async () => {
      await element("iframe", (e) => { e.id = "framed"; (e as HTMLIFrameElement).src = url; });
      try {
        return (document.getElementById("framed") as HTMLIFrameElement).contentWindow!.length === 0 ? "nothing in it" : "something in it";
      } catch {
        return "nothing to be seen";
      }
    });
    await tried("a window", async () => {
      const w = window.open(url, "_blank");
      if (!w) return "refused";
      for (let i = 0; i < 100 && !w.closed; i++) await new Promise((r) => setTimeout(r, 50));
      return w.closed ? "cut off" : "held";
    });
    return out;
  }, { url, key, digest, link });
}

for (const host of ["127.0.0.1", "localhost"]) {
  test(`a hostile page on ${host} reads nothing and decides nothing`, async ({ app, product, asker, evil }) => {
    const asked = await asker.ask(inSession(command("check"), SESSION));
    await app.open(asked);
    const { digest } = await product.interaction(asked.key);
    const link = (await product.link()).split("#login=")[1]!;
    const page = await app.page.context().newPage();
    const posts: number[] = [];
    page.on("response", (r) => { if (r.request().method() === "POST") posts.push(r.status()); });
    await page.goto((await evil(host)).url);
    const came = await attack(page, product.url, asked.key, digest, link);
    expect(came["read the list"]).toMatch(/^refused: TypeError/);
    expect(came["read the page"]).toMatch(/^refused: TypeError/);
    expect(came["decide"]).toMatch(/^refused: TypeError/);
    expect(came["a socket"]).toBe("refused");
    expect(came["a stream"]).toBe("refused");
    expect(came["a script of ours"]).toBe("refused");
    expect(came["an answer as a script"]).toBe("refused");
    expect(came["an answer as a picture"]).toBe("refused");
    expect(came["a window"]).toBe("cut off");
    expect(came["a frame"]).not.toBe("something in it");
    expect(page.frames().filter((f) => f.url().startsWith(product.url)).map((f) => f.url()).filter((u) => !u.includes("/decision"))).toEqual([]);
    // What was sent without asking was answered by a refusal that the page cannot read.
    expect(posts.length).toBeGreaterThan(0);
    expect(posts.filter((s) => s < 400)).toEqual([]);
    // Nothing was decided, and the link is as good as before.
    expect((await product.interaction(asked.key)).state).toBe("pending");
    expect(asked.answered()).toBe(false);
    expect((await product.call("POST", "/api/login", { token: link })).status).toBe(200);
  });
}

test("what is smuggled into our own page runs nothing and reaches nobody", async ({ app, product, evil }) => {
  const { page } = app;
  const { url, visits } = await evil("127.0.0.1");
  const came = await page.evaluate(async (url) => {
    const out: Record<string, string> = {};
    const w = window as unknown as { ran?: boolean };
    const element = (tag: string, set: (e: HTMLElement) => void) => new Promise<string>((done) => {
      const e = document.createElement(tag);
      e.onload = () => done("loaded");
      e.onerror = () => done("refused");
      set(e);
      document.body.append(e);
      setTimeout(() => done(w.ran ? "ran" : "nothing"), 3_000);
    });
    out["an inline script"] = await element("script", (e) => { e.textContent = "window.ran = true"; });
    out["a handler"] = await element("div", (e) => { e.innerHTML = `<img src="x" onerror="window.ran = true">`; });
    out["a script of another site"] = await element("script", (e) => { (e as HTMLScriptElement).src = `${url}/x.js`; });
    out["a script as data"] = await element("script", (e) => { (e as HTMLScriptElement).src = "data:text/javascript,window.ran=true"; });
    out["a picture of another site"] = await element("img", (e) => { (e as HTMLImageElement).src = `${url}/x.png`; });
    out["a frame of another site"] = await element("iframe", (e) => { (e as HTMLIFrameElement).src = `${url}/frame`; });
    out["a call to another site"] = await fetch(`${url}/call`).then(() => "sent", () => "refused");
    out["a beacon"] = navigator.sendBeacon(`${url}/beacon`, "x") ? "queued" : "refused";
    out["a socket to another site"] = await new Promise((done) => {
      try {
        const ws = new WebSocket(url.replace("http", "ws"));
        ws.onopen = () => done("open");
        ws.onerror = () => done("refused");
      } catch {
        done("refused");
      }
    });
    const form = document.createElement("form");
    Object.assign(form, { method: "POST", action: `${url}/form` });
    document.body.append(form);
    form.submit();
    const base = document.createElement("base");
    base.href = url;
    document.head.append(base);
    out["another base"] = document.baseURI.startsWith(url) ? "taken" : "refused";
    base.remove();
    await new Promise((r) => setTimeout(r, 500));
    out["anything ran"] = w.ran ? "yes" : "no";
    return out;
  }, url);
  expect(came["anything ran"]).toBe("no");
  expect(came["a script of another site"]).toBe("refused");
  expect(came["a script as data"]).toBe("refused");
  expect(came["a picture of another site"]).toBe("refused");
  expect(came["a call to another site"]).toBe("refused");
  expect(came["a socket to another site"]).toBe("refused");
  expect(came["another base"]).toBe("refused");
  expect(visits).toEqual([]);
  // The form went nowhere: the page is where it was.
  expect(await page.evaluate(() => location.origin)).toBe(product.url);
});
