// The screens around the cards, and what holds for each of them.
import { clean } from "./support/axe.ts";
import { command, inSession, kind, kinds } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";

test("each screen, without a fault that axe finds D1-32 D1-33", async ({ app, product, asker }) => {
  const { page } = app;
  await test.step("an empty inbox", async () => {
    await expect(page.getByRole("heading", { name: "Nothing waits for you" })).toBeVisible();
    await clean(page, "inbox empty", { pictures: true });
  });
  await test.step("all kinds at once", async () => {
    for (const k of kinds) await asker.ask(inSession(k.request, SESSION));
    await expect(page).toHaveTitle(`(${kinds.length}) Banksman`);
    await app.wholeCards();
    await expect(app.cards()).toHaveCount(kinds.length);
    await clean(page, "inbox", { pictures: true });
  });
  await test.step("a session that waits", async () => {
    await asker.event(SESSION, "text", { role: "user", text: "Please release 2.4." });
    await asker.event(SESSION, "text", { role: "assistant", text: "I look at what is there." });
    await asker.event(SESSION, "tool_call_start", { tool_call_id: "t1", tool_name: "Bash" });
    await asker.event(SESSION, "tool_call_end", { tool_call_id: "t1", tool_name: "Bash", input: { command: "ls build" } });
    await asker.event(SESSION, "tool_result", { tool_call_id: "t1", content: "app.js", is_error: false });
    const link = page.getByRole("link", { name: /Release 2\.4/ }).first();
    await expect(link).toContainText("waiting for your answer");
    await link.click();
    await expect(page.getByRole("heading", { name: "Release 2.4" })).toBeVisible();
    await expect(page.getByRole("log", { name: "Conversation" })).toContainText("I look at what is there.");
    await expect(page.getByText(/^Waiting for you/)).toBeVisible();
    await expect(page.getByText(/Working/)).toHaveCount(0);
    await expect(page.getByRole("textbox", { name: "Message to the agent" })).toHaveCount(0);
    await clean(page, "session that waits", { pictures: true });
  });
  await test.step("a session that waits for nobody", async () => {
    await asker.session("talk", "Talk", "user_turn");
    await asker.event("talk", "text", { role: "assistant", text: "Done." });
    await app.go("s/default.agents.talk");
    await expect(page.getByRole("textbox", { name: "Message to the agent" })).toBeVisible();
    await clean(page, "session", { pictures: true });
  });
  await test.step("all sessions", async () => {
    await app.go("sessions");
    await expect(page.getByRole("heading", { name: "Sessions", level: 1 })).toBeVisible();
    await clean(page, "sessions");
  });
  await test.step("a new session", async () => {
    await app.go("new");
    await page.getByRole("combobox", { name: "Permission mode" }).selectOption("bypassPermissions");
    await clean(page, "new session", { pictures: true });
  });
  await test.step("decisions", async () => {
    const colleague = await product.colleague("Grace");
    const { body } = await product.call<{ interactions: { key: string; kind: string }[] }>("GET", "/api/interactions");
    for (const [i, x] of body.interactions.entries()) {
      if (x.kind === "approval") await colleague.decide(x.key, { decision: i % 2 === 0 ? "allow" : "deny", message: "as agreed" });
    }
    await app.go("history");
    await expect(page.getByRole("heading", { name: "Decisions" })).toBeVisible();
    await expect(page.getByText(/Denied by Grace/).first()).toBeVisible();
    await clean(page, "decisions", { pictures: true });
  });
});

test("what opens over a screen, and the ways in, without a fault that axe finds", async ({ app, product }) => {
  const { page } = app;
  await test.step("keys", async () => {
    await app.go("");
    await page.getByRole("button", { name: "Keys" }).click();
    await expect(app.help).toBeVisible();
    await clean(page, "keys");
    await page.keyboard.press("Escape");
    await expect(app.help).toHaveCount(0);
  });
  await test.step("a terminal that asks to sign in", async () => {
    const login = product.command("login", "--cli");
    await expect(page.getByRole("dialog", { name: "A terminal asks to sign in as you" })).toBeVisible();
    await clean(page, "terminal sign-in");
    await page.getByRole("button", { name: "Refuse" }).click();
    expect(await login.exit).not.toBe(0);
  });
  await test.step("a request that nobody knows", async () => {
    await app.go("i/default.cli.nobody");
    await expect(page.getByText("no such request")).toBeVisible();
    await clean(page, "unknown request");
  });
  await test.step("a link that was used", async () => {
    const link = await product.link();
    const other = await page.context().browser()!.newContext({ reducedMotion: "reduce" });
    const p = await other.newPage();
    await p.goto(product.url);
    await expect(p.getByRole("heading", { name: "Sign in from your terminal" })).toBeVisible();
    await clean(p, "sign in", { pictures: true });
    await p.goto(link);
    await expect(p.getByTestId("inbox")).toBeVisible();
    await p.evaluate(() => localStorage.clear());
    await p.goto("about:blank");
    await p.goto(link);
    await expect(p.getByRole("alert")).toContainText("This link does not work any more");
    await p.goto(`${product.url}/signin.html`);
    await expect(p.getByRole("heading").first()).toBeVisible();
    await clean(p, "sign in of a team");
    await other.close();
  });
});

test("whatever stands in a long text is seen before Approve opens, on every screen B-54 D1-34", async ({ app, asker }) => {
  const end = "; rm -rf /srv/production";
  const long = await asker.ask(inSession(command("x", { tool: { name: "Bash", input: { command: `printf '%s' ${"harmless ".repeat(55)}${end}` } } }), SESSION));
  const write = await asker.ask(inSession(kind("Write").request, SESSION));
  await app.page.setViewportSize({ width: 390, height: 844 });
  const card = await app.open(long);
  await card.reads(end);
  await expect(card.approve).toBeDisabled();
  await card.reads(/Approve opens once you have (opened and )?seen/);
  expect(await app.page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth)).toBe(true);
  for (const b of [card.deny, card.approve]) {
    const box = (await b.boundingBox())!;
    expect(box.height).toBeGreaterThanOrEqual(44);
    expect(box.width).toBeGreaterThanOrEqual(44);
  }
  expect((await card.deny.boundingBox())!.x).toBeLessThan((await card.approve.boundingBox())!.x - 100);
  await card.seeAll();
  await expect(card.approve).toBeEnabled();

  await app.page.setViewportSize({ width: 1280, height: 800 });
  const folded = await app.open(write);
  await folded.reads(/lines hidden/);
  await expect(folded.approve).toBeDisabled();
  await expect(folded.edit).toBeDisabled();
  await expect(folded.deny).toBeEnabled();
  await folded.seeAll();
  await expect(folded.approve).toBeEnabled();
  await folded.approve.click();
  await folded.is("confirmed");
});

test("invisible characters are marks, and no text of an agent is markup B-54 D0-42 invariant10", async ({ app, asker }) => {
  const asked = await asker.ask(inSession({
    kind: "approval", agent_name: "<b>Agent</b>", title: "<img src=x onerror=alert(1)>", message: "[a](javascript:alert(1)) **bold** \u202e",
    tool: { name: "Bash", input: { command: `echo safe \u202etxt.exe\u200b${" ".repeat(60)}&& rm -rf ~` } },
  }, SESSION));
  const dialogs: string[] = [];
  app.page.on("dialog", (d) => {
    dialogs.push(d.message());
    void d.dismiss();
  });
  const card = await app.open(asked);
  await card.reads("⟦U+202E⟧", "⟦U+200B⟧", /invisible characters/, /pushed out of sight/, "rm -rf ~", "<img src=x onerror=alert(1)>", "<b>Agent</b>");
  await expect(card.root.locator("img, b, a[href^=javascript]")).toHaveCount(0);
  await clean(app.page, "hidden characters", { pictures: true });
  expect(dialogs).toEqual([]);
});

test.describe("a page whose answers are changed on the way", () => {
  test.use({ serviceWorkers: "block" });

  test("a card that cannot be drawn leaves the others alone D4-18", async ({ app, asker }) => {
    const good = await asker.ask(inSession(command("good"), SESSION));
    const bad = await asker.ask(inSession(command("bad"), SESSION));
    // A server that says something impossible of one of them.
    await app.page.route(/\/api\/interactions\/[^/?]+$/, async (route) => {
      const response = await route.fetch();
      const body = (await response.json()) as { request_id: string; body: { blocks: unknown[] } };
      if (body.request_id === bad.id) body.body.blocks = [{ label: { no: "text" }, form: "command", text: { nor: "this" } }];
      await route.fulfill({ response, json: body });
    });
    await app.page.reload();
    await app.card(bad).is("broken");
    await app.card(bad).reads("cannot be drawn here", "still waits");
    await app.card(good).is("pending");
    await expect(app.page).toHaveTitle("(2) Banksman");
    await clean(app.page, "broken card", { pictures: true });
    // One after the other in the same place: each stands for itself.
    for (const [asked, state] of [[bad, "broken"], [good, "pending"], [bad, "broken"]] as const) await (await app.open(asked)).is(state);
    await app.go("");
    await app.card(good).approve.click();
    await app.card(good).is("confirmed");
    expect((await good.answer()).outcome).toBe("allowed");
    expect(bad.answered()).toBe(false);
  });
});
