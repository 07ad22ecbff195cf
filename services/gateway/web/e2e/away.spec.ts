// A page that was away: put away whole by the browser, older than its server, or left
// alone while what it shows changed. And pages of people who want nothing to move.
import { chromium as browserPath } from "./support/place.ts";
import { clean } from "./support/axe.ts";
import { command, inSession } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";

test.use({ launchOptions: {
  executablePath: browserPath(), args: ["--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  ignoreDefaultArgs: ["--disable-back-forward-cache"], // Playwright switches it off
} });

test("back to a page that shows what was then: nothing decides before the server has spoken B-27 invariant8", async ({ app, product, asker }) => {
  const { page } = app;
  const colleague = await product.colleague("Grace");
  const gone = await asker.ask(inSession(command("gone"), SESSION));
  const open = await asker.ask(inSession(command("open"), SESSION));
  await app.card(gone).isWhole();
  await app.card(open).isWhole();
  await page.evaluate(() => {
    const w = window as unknown as { back: { persisted: boolean; dead: boolean } };
    addEventListener("pageshow", (e) => {
      // At this moment, before anything else can happen to the page.
      queueMicrotask(() => requestAnimationFrame(() => {
        const buttons = [...document.querySelectorAll<HTMLButtonElement>('[data-testid="approve"]')];
        const known = document.querySelector('[data-testid="conn-status"]')?.getAttribute("data-status") === "online";
        w.back = { persisted: e.persisted, dead: known || buttons.every((b) => b.disabled) };
      }));
    });
  });
  await page.goto(`${product.url}/manifest.webmanifest`);
  await colleague.decide(gone.key, { decision: "deny" });
  await page.goBack({ waitUntil: "commit" }); // one that was put away is not loaded again
  await expect(app.connection).toHaveText(/^Connected/);
  await app.card(open).isWhole();
  await expect(app.card(gone).deciding()).toHaveCount(0);
  const back = await page.evaluate(() => (window as unknown as { back?: { persisted: boolean; dead: boolean } }).back);
  // Where the browser did put it away, it was dead until then; else it was loaded anew.
  test.info().annotations.push({ type: "put away whole", description: String(back?.persisted ?? false) });
  if (back?.persisted) expect(back.dead).toBe(true);
  // As the browser tells of it, with a connection that looks well: it is not believed.
  const status = await page.evaluate(() => new Promise<string>((done) => {
      const el = document.querySelector('[data-testid="conn-status"]')!;
      new MutationObserver(() => {
        const approve = document.querySelector<HTMLButtonElement>('[data-testid="approve"]');
        if (el.getAttribute("data-status") !== "online") done(`${el.getAttribute("data-status")} ${approve?.disabled}`);
      }).observe(el, { attributes: true, attributeFilter: ["data-status"] });
      dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
    }));
  expect(status).toBe("connecting true");
  await expect(app.connection).toHaveText(/^Connected/);
  await app.card(open).approve.click();
  await app.card(open).is("confirmed");
});

test("a page of an older version is not what opens while its server is there, and one that is open is told B-18", async ({ app, product, asker }) => {
  const { page } = app;
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  await app.card(asked).isWhole();
  await page.evaluate(async () => {
    await navigator.serviceWorker.ready;
    if (!navigator.serviceWorker.controller) await new Promise((done) => navigator.serviceWorker.addEventListener("controllerchange", done, { once: true }));
    // As an earlier version left it.
    const cache = await caches.open((await caches.keys())[0]!);
    await cache.put("/", new Response('<!doctype html><title>old</title><script type="module" src="/assets/old-1.js"></script><div id="root">an old page</div>', { headers: { "Content-Type": "text/html" } }));
    await cache.put("/assets/old-1.js", new Response("document.title = 'the old one runs'", { headers: { "Content-Type": "text/javascript" } }));
  });
  await page.reload();
  await app.card(asked).isWhole();
  expect(await page.title()).not.toMatch(/old/);
  // What is kept is the new one by now.
  await expect.poll(() => page.evaluate(async () => (await (await caches.match("/"))!.text()).includes("old-1.js"))).toBe(false);
  expect(await page.evaluate(async () => (await caches.match("/assets/old-1.js")) === undefined)).toBe(true);
  product.line.cut();
  await page.reload();
  await expect(app.connection).toContainText(/Connection lost|Connecting/);
  await expect(page.getByText("an old page")).toHaveCount(0);
  product.line.mend();
  await app.card(asked).isWhole();
  // One that is open while the server is upgraded.
  await page.evaluate(() => document.querySelector('script[type="module"][src^="/assets/"]')!.setAttribute("src", "/assets/index-earlier.js"));
  product.line.cut();
  await expect(app.connection).toContainText(/Connection lost|Connecting/);
  product.line.mend();
  await expect(page.getByTestId("newer")).toContainText("The server has a newer version of this page");
  await clean(page, "a newer version", { pictures: true });
  await page.getByRole("button", { name: "Load it" }).click();
  await app.card(asked).isWhole();
  await expect(page.getByTestId("newer")).toHaveCount(0);
});

for (const [motion, moves] of [["reduce", false], ["no-preference", true]] as const) {
  test(`with prefers-reduced-motion ${motion} ${moves ? "a card comes softly" : "nothing moves"}`, async ({ app, asker }) => {
    const { page } = app;
    await page.emulateMedia({ reducedMotion: motion });
    await page.evaluate(() => {
      const w = window as unknown as { moved: string[] };
      w.moved = [];
      for (const type of ["animationstart", "transitionrun"]) document.addEventListener(type, (e) => w.moved.push(`${type} ${(e.target as Element).className}`), true);
    });
    const asked = await asker.ask(inSession(command("deploy"), SESSION));
    await app.card(asked).isWhole();
    await app.card(asked).deny.hover();
    await app.go(`s/default.agents.${SESSION}`);
    await app.card(asked).isWhole();
    const moved = await page.evaluate(() => (window as unknown as { moved: string[] }).moved);
    if (moves) expect(moved.join("\n")).toContain("animationstart");
    else expect(moved).toEqual([]);
  });
}

test("a session that is called otherwise is called so wherever it stands, and so are its requests", async ({ app, asker }) => {
  const { page } = app;
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  await app.card(asked).reads("Release 2.4");
  await asker.session(SESSION, "Release 2.5, again");
  await app.card(asked).reads("Release 2.5, again");
  await expect(page.getByTestId(`session-default.agents.${SESSION}`).first()).toContainText("Release 2.5, again");
  await app.card(asked).root.getByRole("link", { name: "Open session" }).click();
  await expect(page.getByRole("heading", { name: "Release 2.5, again" })).toBeVisible();
  await expect(page.getByText("Release 2.4")).toHaveCount(0);
});

test("a form of 200 fields is drawn and answered, and one that people could not fill in is refused to who asks", async ({ app, asker }) => {
  const { page } = app;
  const deep = (n: number): unknown => (n === 0 ? { type: "string" } : { type: "object", properties: { [`level${n}`]: deep(n - 1) }, required: [`level${n}`] });
  const refused: [name: string, schema: unknown][] = [
    ["ten levels", deep(10)],
    ["$ref", { type: "object", properties: { to: { $ref: "#/$defs/place" } }, required: ["to"], $defs: { place: { type: "object", properties: { city: { type: "string" } } } } }],
    ["oneOf types", { type: "object", properties: { when: { oneOf: [{ type: "string" }, { type: "integer" }] } }, required: ["when"] }],
    ["a $ref to itself", { type: "object", properties: { next: { $ref: "#" }, name: { type: "string" } } }],
  ];
  for (const [name, schema] of refused) {
    await test.step(name, async () => {
      await expect(asker.ask(inSession({ kind: "form", title: `Fill in ${name}`, schema }, SESSION))).rejects.toThrow(/invalid: schema/);
    });
  }
  const many = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`field_${i}`, { type: "string", title: `Field ${i}` }]));
  const asked = await asker.ask(inSession({ kind: "form", title: "Fill in 200 fields", schema: { type: "object", properties: many, required: ["field_199"] } }, SESSION));
  const card = await app.open(asked);
  await card.isWhole();
  await expect(card.root.getByRole("textbox")).toHaveCount(200);
  await expect(card.submit).toBeDisabled();
  await card.root.getByRole("textbox", { name: "Field 199" }).fill("last");
  await clean(page, "form of 200 fields");
  await card.submit.click();
  await card.is("confirmed");
  expect((await asked.answer()).outcome).toBe("answered");
});

test("a request's page says who was told of it", async ({ app, asker }) => {
  const { page } = app;
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  await app.open(asked);
  await page.getByRole("button", { name: "Who was told?" }).click();
  const told = page.getByTestId("told");
  // Without channels of its own a notifier writes to its log.
  await expect(told).toContainText(/Next: log|log/);
  await clean(page, "who was told", { pictures: true });
});

test("a terminal that asks to sign in, and was left alone, stands over nothing that decides B-60", async ({ app, product, asker }) => {
  const { page } = app;
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  await app.card(asked).isWhole();
  product.command("login", "--cli");
  const dialog = page.getByRole("dialog", { name: "A terminal asks to sign in as you" });
  await expect(dialog).toBeVisible();
  const box = (await dialog.boundingBox())!;
  const main = (await page.locator("main").boundingBox())!;
  expect(box.x + box.width).toBeLessThanOrEqual(main.x);
  for (const button of await dialog.getByRole("button").all()) {
    const b = (await button.boundingBox())!;
    expect(b.x + b.width).toBeLessThanOrEqual(box.x + box.width);
  }
  await clean(page, "a terminal asks to sign in", { pictures: true });
  await app.card(asked).approve.click();
  await app.card(asked).is("confirmed");
});
