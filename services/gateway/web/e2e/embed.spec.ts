// The elements in pages of other origins than the gateway's: every state they can be
// in, without a fault that axe finds, and one broken card that leaves the rest alone.
import { execFileSync } from "node:child_process";
import { cpSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";
import { clean } from "./support/axe.ts";
import { bin, root } from "./support/place.ts";
import { command, FEATURES, inSession, kind, kinds } from "./support/requests.ts";
import { expect, faults, SESSION, test as base } from "./support/test.ts";
import { App, Card } from "./support/ui.ts";
import type { Asked } from "./support/asker.ts";
import type { Product } from "./support/product.ts";

const built = join(bin, "examples");
const types: Record<string, string> = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css" };

const test = base.extend<{ site: string }, { server: Server }>({
  // The three examples as their authors would serve them.
  server: [async ({}, use, info) => {
    const dir = `${built}-${info.workerIndex}`;
    execFileSync("npm", ["run", "--silent", "examples"], { cwd: join(root, "services/gateway/web"), env: { ...process.env, EXAMPLES_OUT: dir }, stdio: "pipe" });
    cpSync(join(root, "docs/examples/embed/html"), join(dir, "html"), { recursive: true });
    const server = createServer((req, res) => {
      const path = normalize(new URL(req.url!, "http://x").pathname);
      try {
        const name = path.endsWith("/") ? `${path}index.html` : path;
        const body = readFileSync(join(dir, name));
        res.writeHead(200, { "Content-Type": types[extname(name)] ?? "application/octet-stream" }).end(body);
      } catch {
        res.writeHead(404).end();
      }
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    await use(server);
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  }, { scope: "worker" }],
  site: async ({ server }, use) => use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
  flags: async ({ site }, use) => use(["--origin", site]),
  // The page of somebody else: nobody signs in there.
  app: async ({ page, product }, use) => {
    const wrong = faults(page);
    await use(new App(page, product));
    expect(wrong).toEqual([]);
  },
});

type Example = "html" | "react" | "vue";

async function visit(app: App, product: Product, site: string, example: Example, token = product.session): Promise<void> {
  // The address differs by its fragment alone otherwise, and that loads nothing.
  await app.page.goto("about:blank");
  await app.page.goto(`${site}/${example}/#${new URLSearchParams({ gateway: product.url, token })}`);
  await expect(app.page.locator("h1").first()).toBeVisible();
}

/** In Vue's page one chooses from a list. */
async function shown(app: App, example: Example, asked: Asked, title: string): Promise<Card> {
  if (example === "vue") await app.page.getByRole("button", { name: title }).click();
  return app.card(asked);
}

for (const example of ["html", "react", "vue"] as const) {
  test(`the ${example} page shows a request of each kind, its end, and a lost line, and axe finds nothing D0-30 D0-31 D1-41`, async ({ app, product, asker, site }) => {
    const { page } = app;
    const asked = [];
    for (const k of kinds) asked.push({ k, a: await asker.ask(inSession(k.request, SESSION)) });
    await visit(app, product, site, example);
    await expect(page.locator("#count")).toHaveText(String(kinds.length));
    if (example !== "vue") {
      await app.wholeCards();
      await expect(app.cards()).toHaveCount(kinds.length);
      await clean(page, `embed ${example} pending`, { pictures: true });
    }
    for (const { k, a } of asked) {
      const card = await shown(app, example, a, k.request.title);
      await card.is("pending");
      await card.isWhole();
      await card.reads(k.reads[0]!);
    }
    if (example === "vue") await clean(page, "embed vue pending", { pictures: true });
    const bash = kind("Bash");
    const one = asked.find((x) => x.k === bash)!.a;
    const card = await shown(app, example, one, bash.request.title);
    await test.step("the line is cut: nothing can be decided, and it says so", async () => {
      product.line.cut();
      await card.isDead();
      await card.reads("No connection to the server");
      await clean(page, `embed ${example} connection lost`);
      product.line.mend();
      await card.seeAll();
      await expect(card.approve).toBeEnabled();
    });
    await test.step("refused, and decided after that", async () => {
      await bash.refuse(card);
      await card.is("refused");
      await clean(page, `embed ${example} refused`);
      await card.root.getByRole("button", { name: /^Cancel/ }).click();
      await card.approve.click();
      await card.is("confirmed");
      await expect(page.locator("#last")).toHaveText("Last: allowed");
      expect((await one.answer()).outcome).toBe("allowed");
      await clean(page, `embed ${example} confirmed`, { pictures: true });
    });
    await expect(page.locator("#count")).toHaveText(String(kinds.length - 1));
  });

  test(`a card that cannot be drawn leaves the ${example} page and its other cards alone D4-18`, async ({ app, product, asker, site }) => {
    const { page } = app;
    const good = await asker.ask(inSession(command("good"), SESSION));
    const bad = await asker.ask(inSession(command("bad"), SESSION));
    await page.route(/\/api\/interactions\/[^/?]+$/, async (route) => {
      if (route.request().method() !== "GET") return route.continue();
      const response = await route.fetch();
      const body = (await response.json()) as { request_id: string; body: { blocks: unknown[] } };
      if (body.request_id === bad.id) body.body.blocks = [{ label: { no: "text" }, form: "command", text: { nor: "this" } }];
      await route.fulfill({ response, json: body });
    });
    await visit(app, product, site, example);
    const broken = await shown(app, example, bad, "Run bad");
    await broken.is("broken");
    await broken.reads("cannot be drawn here", "still waits", "wants to run");
    await clean(page, `embed ${example} broken card`, { pictures: true });
    await expect(page.locator("h1").first()).toBeVisible();
    await expect(page.locator("#count")).toHaveText("2");
    const fine = await shown(app, example, good, "Run good");
    await fine.is("pending");
    await fine.approve.click();
    await fine.is("confirmed");
    expect((await good.answer()).outcome).toBe("allowed");
    expect(bad.answered()).toBe(false);
    // What cannot be drawn can still be refused.
    const again = await shown(app, example, bad, "Run bad");
    await again.is("broken");
    await again.deny.click();
    expect((await bad.answer()).outcome).toBe("denied");
  });
}

test("the elements in the other states, in a plain page: sending, unsure, lost, decided, expired, withdrawn, unreachable, signed out B-17 B-29 B-30 B-31 D0-35 D0-39", async ({ app, product, asker, site }) => {
  const { page } = app;
  await visit(app, product, site, "html");
  await expect(app.inbox).toContainText("Requests of your agents appear here by themselves");
  await clean(page, "embed empty", { pictures: true });
  const colleague = await product.colleague("Grace");
  const each = [];
  for (const k of [kind("Bash"), kind("question"), kind("form")]) {
    const ask = (more = {}) => asker.ask(inSession(k.request, SESSION, more));
    each.push({ k, expired: await ask({ expires_in: "30s" }), lost: await ask(), decided: await ask(), withdrawn: await ask() });
  }
  await app.wholeCards();
  for (const { k, lost } of each) {
    const card = app.card(lost);
    await card.isWhole();
    if (k.request.kind === "approval") await card.seeAll();
    product.line.hold();
    await colleague.decide(lost.key, k.other);
    await k.answer(card);
    await card.is("sending");
    await card.isDead();
    if (k.name === "Bash") {
      await card.is("unsure");
      await clean(page, "embed unsure");
    }
    product.line.release();
    await card.is("lost");
    await card.reads("Grace was first");
  }
  for (const { k, decided, withdrawn } of each) {
    await colleague.decide(decided.key, k.other);
    await app.card(decided).is("decided");
    withdrawn.withdraw();
    await app.card(withdrawn).is("withdrawn");
  }
  for (const { expired, lost, decided, withdrawn } of each) {
    await app.card(expired).is("expired");
    for (const a of [expired, lost, decided, withdrawn]) await app.card(a).isOver();
  }
  await clean(page, "embed over", { pictures: true });
  await test.step("unreachable", async () => {
    const asked = await asker.ask(inSession(command("deploy"), SESSION));
    await asker.silent();
    await expect(app.card(asked).root).toHaveAttribute("data-unreachable", "true", { timeout: 60_000 });
    await clean(page, "embed unreachable");
    await asker.beat();
  });
  await test.step("nobody is signed in", async () => {
    await visit(app, product, site, "html", "not-a-token");
    await expect(page.getByTestId("standing")).toContainText("Nobody is signed in here");
    await expect(app.cards()).toHaveCount(0);
    await clean(page, "embed signed out");
  });
  await test.step("no such request, and none named", async () => {
    await visit(app, product, site, "html");
    const element = (key: string) => page.evaluate(({ key, gateway, token }) => {
      const e = document.createElement("banksman-interaction");
      e.setAttribute("src", gateway);
      (e as unknown as { token: string }).token = token;
      if (key) e.setAttribute("interaction", key);
      document.body.append(e);
    }, { key, gateway: product.url, token: product.session });
    await element("default.cli.nobody");
    await expect(page.getByText("The gateway knows no such request.")).toBeVisible();
    await element("");
    await expect(page.getByText("No request is named here.")).toBeVisible();
    await clean(page, "embed unknown");
  });
});

test("of two elements one speaks to screen readers, and the other takes over when it leaves B-77", async ({ app, product, asker, site }) => {
  const { page } = app;
  await visit(app, product, site, "html");
  await expect(page.locator("#count")).toHaveText("0");
  await page.evaluate(() => {
    const one = document.querySelector("banksman-inbox")! as HTMLElement & { token: string };
    const two = document.createElement("banksman-inbox") as typeof one;
    two.setAttribute("src", one.getAttribute("src")!);
    two.token = one.token;
    one.after(two);
  });
  await expect(page.getByTestId("inbox")).toHaveCount(2);
  await expect(app.live).toHaveCount(1);
  await page.evaluate(() => document.querySelector("banksman-inbox")!.remove());
  await expect(page.getByTestId("inbox")).toHaveCount(1);
  await expect(app.live).toHaveCount(1);
  await asker.ask(inSession(command("deploy"), SESSION));
  await expect(app.live).toHaveText(/New request: Build agent /);
});

test("what is half written in an element survives a reload of its page and a lost race B-17 B-25 D1-40", async ({ app, product, asker, site }) => {
  const { request } = kind("question");
  const asked = await asker.ask(inSession(request, SESSION));
  for (const example of ["html", "react"] as const) {
    await visit(app, product, site, example);
    const card = app.card(asked);
    await card.isWhole();
    await card.own(FEATURES).fill(`half a thought in ${example}`);
    await visit(app, product, site, example);
    await expect(card.own(FEATURES)).toHaveValue(`half a thought in ${example}`);
  }
  const card = app.card(asked);
  const colleague = await product.colleague("Grace");
  await colleague.decide(asked.key, { answers: { db: "SQLite", features: ["Login"] } });
  await card.is("decided");
  await expect(card.unsent).toContainText("half a thought in react");
});
