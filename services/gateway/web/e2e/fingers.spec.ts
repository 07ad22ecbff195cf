// Hands are quick and keys repeat: what has just come under a finger takes no press
// that was meant for what stood there before.
import type { Locator, Page } from "@playwright/test";
import { command, inSession } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";
import type { Asked, Asker } from "./support/asker.ts";

/** Lets no time pass in the page, however slow the machine is, while what is done. */
async function atOnce(page: Page, what: () => Promise<void>): Promise<void> {
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 1000);
  await what();
  await page.clock.resume();
}

/** A press at the middle of it, whatever takes it. */
async function press(page: Page, where: Locator): Promise<void> {
  const box = (await where.boundingBox())!;
  await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
}

/** Two presses at one point, as somebody who presses twice by habit makes them. */
async function twice(page: Page, where: Locator, between: () => Promise<unknown>): Promise<void> {
  // What has just come takes no press at all: it has to have stood a while.
  await expect(where.locator("xpath=ancestor::*[@inert or contains(@class, 'pointer-events-none')]")).toHaveCount(0);
  const box = (await where.boundingBox())!;
  await atOnce(page, async () => {
    await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await between();
    await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
  });
}

/** A key that is held: the first press, and what the system repeats of it. */
async function held(page: Page, key: string, repeats = 6): Promise<void> {
  for (let i = 0; i <= repeats; i++) {
    await page.keyboard.down(key);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }
  await page.keyboard.up(key);
}

/** Alike, and of some length, so that the second would stand exactly where the first one stood. */
async function alike(asker: Asker, n: number, lines = 1): Promise<Asked[]> {
  const list: Asked[] = [];
  for (let i = 0; i < n; i++) {
    const text = Array.from({ length: lines }, (_, l) => `make part-${i}-${l}`).join("\n");
    list.push(await asker.ask(inSession(command(`part-${i}`, { tool: { name: "Bash", input: { command: text } } }), SESSION)));
  }
  return list;
}

for (const [name, size] of [["a desktop", { width: 1280, height: 800 }], ["a phone", { width: 390, height: 844 }]] as const) {
  test(`on ${name} a double press approves one request of a session, not the next that comes in its place B-29 B-60`, async ({ app, asker }) => {
    const { page } = app;
    await page.setViewportSize(size);
    const [first, second] = (await alike(asker, 2, 40)) as [Asked, Asked];
    await app.go("s/default.agents.release");
    const card = app.card(first);
    await card.isWhole();
    await app.card(second).isWhole();
    await card.seeAll();
    await expect(card.approve).toBeEnabled();
    await twice(page, card.approve, async () => {
      await expect(app.card(first).deciding()).toHaveCount(0);
      expect((await first.answer()).outcome).toBe("allowed");
    });
    // One whose press was lost can be pressed again.
    await app.card(second).seeAll();
    await app.card(second).deny.click();
    expect((await second.answer()).outcome).toBe("denied");
  });
}

test("a press that is on its way when the next request comes in the place of a message approves nothing B-60", async ({ app, asker }) => {
  const { page } = app;
  await asker.session("talk", "Talk", "user_turn");
  await app.go("s/default.agents.talk");
  await expect(page.getByRole("textbox", { name: "Message to the agent" })).toBeVisible();
  await atOnce(page, async () => {
    const asked = await asker.ask(inSession(command("deploy"), "talk"));
    const card = app.card(asked);
    await card.isWhole();
    await press(page, card.approve);
    await card.is("pending");
    expect(asked.answered()).toBe(false);
  });
  await app.cards().getByRole("button", { name: /^Approve once/ }).click();
  await expect(app.cards()).toHaveCount(0);
});

test("a held Enter denies nothing without its reason, and ends no session B-60 D0-42", async ({ app, asker }) => {
  const { page } = app;
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const card = await app.open(asked);
  await test.step("on Deny with reason", async () => {
    await card.denyWithReason.focus();
    await held(page, "Enter");
    await expect(card.reason).toBeFocused();
    await page.keyboard.type("not on a Friday");
    await card.is("pending");
    expect(asked.answered()).toBe(false);
    await page.keyboard.press("Enter");
    expect((await asked.answer()).message).toContain("not on a Friday");
  });
  await test.step("on Stop, and by a double press", async () => {
    await asker.session("talk", "Talk", "user_turn");
    await app.go("s/default.agents.talk");
    const stop = page.getByRole("button", { name: "Stop" });
    const sure = page.getByRole("button", { name: "End it for good" });
    const ordered: string[] = [];
    page.on("websocket", (ws) => ws.on("framesent", ({ payload }) => { if (String(payload).includes("stop_session")) ordered.push(String(payload)); }));
    await page.reload();
    await stop.focus();
    await held(page, "Enter");
    await expect(sure).toBeFocused();
    await page.keyboard.press("Escape");
    await page.getByRole("textbox", { name: "Message to the agent" }).focus();
    await twice(page, stop, () => expect(sure).toBeVisible());
    expect(ordered).toEqual([]);
    if (await stop.isVisible()) await stop.click();
    await sure.click();
    await expect.poll(() => ordered.length).toBe(1);
  });
});

test("many are read before they are approved together, also where their texts come late, and not by a double press B-54 D1-34", async ({ app, asker }) => {
  const { page } = app;
  // More than the sheet shows at once, and none so long that it is folded.
  const asked = await alike(asker, 9, 20);
  // Whoever comes later is told of each, and fetches the whole of it when it is wanted.
  await expect(page).toHaveTitle("(9) Banksman");
  await page.reload();
  await app.overview();
  for (const a of asked) await app.row(a).select.check();
  const review = app.selection.getByRole("button", { name: "Review them all" });
  const approve = app.sheet.getByRole("button", { name: /^Approve all 9, once/ });
  await twice(page, review, () => expect(app.sheet).toBeVisible());
  await expect(app.sheet).toBeVisible();
  await expect(app.sheet).toContainText("make part-8-19");
  await expect(approve).toBeDisabled();
  expect(asked.some((a) => a.answered())).toBe(false);
  await app.sheet.getByRole("list").evaluate((e) => e.scrollTo(0, e.scrollHeight));
  await expect(approve).toBeEnabled();
  await approve.click();
  for (const a of asked) expect((await a.answer()).outcome).toBe("allowed");
});

test("two that fit on the sheet are not approved by the press that opened it", async ({ app, asker }) => {
  const { page } = app;
  const asked = await alike(asker, 9);
  await app.overview();
  for (const a of asked.slice(0, 2)) await app.row(a).select.check();
  const review = app.selection.getByRole("button", { name: "Review them all" });
  const approve = app.sheet.getByRole("button", { name: /^Approve all 2, once/ });
  // Wherever the sheet's button stands: the press comes down on it.
  await atOnce(page, async () => {
    await review.click();
    await expect(approve).toBeEnabled();
    await press(page, approve);
    await expect(app.sheet).not.toContainText("decided.");
    expect(asked.some((a) => a.answered())).toBe(false);
  });
  await approve.click();
  for (const a of asked.slice(0, 2)) expect((await a.answer()).outcome).toBe("allowed");
});

test("a terminal's wish to sign in is not granted by a press that was meant for a card B-56 B-60", async ({ app, product, asker }) => {
  const { page } = app;
  await page.setViewportSize({ width: 390, height: 844 });
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const card = await app.open(asked);
  await card.isWhole();
  const dialog = page.getByRole("dialog", { name: "A terminal asks to sign in as you" });
  const allow = dialog.getByRole("button", { name: "The codes match, allow" });
  let login!: ReturnType<typeof product.command>;
  await atOnce(page, async () => {
    login = product.command("login", "--cli");
    await expect(dialog).toBeVisible();
    await press(page, allow);
    await expect(allow).toBeEnabled();
  });
  await allow.click();
  expect(await login.exit).toBe(0);
  expect(asked.answered()).toBe(false);
});

test("another choice is read before a rule is made of it B-59", async ({ app, product, asker }) => {
  const asked = await asker.ask(inSession(command("check"), SESSION));
  const card = await app.open(asked);
  await card.always.click();
  await app.menu.getByRole("menuitem", { name: /^In this session/ }).click();
  const make = app.ruleSheet.getByRole("button", { name: "Make the rule and approve this" });
  await expect(make).toBeEnabled();
  const words = await app.ruleSheet.getByTestId("rule-text").textContent();
  product.line.hold();
  await app.ruleSheet.getByRole("group", { name: "Whose" }).getByRole("radio", { checked: false }).first().check();
  await expect(make).toBeDisabled();
  product.line.release();
  await expect(make).toBeEnabled();
  await expect(app.ruleSheet.getByTestId("rule-text")).not.toHaveText(words!);
  expect(asked.answered()).toBe(false);
});

test("the room that a receipt keeps under the pointer shows nothing, and goes with it B-60", async ({ app, asker }) => {
  const { page } = app;
  const [first, second] = (await alike(asker, 2, 12)) as [Asked, Asked];
  const [card, next] = [app.card(first), app.card(second)];
  await card.isWhole();
  await next.is("pending");
  const height = async () => (await card.root.boundingBox())!.height;
  const apart = async () => (await next.root.boundingBox())!.y - (await card.root.boundingBox())!.y;
  const [tall, far] = [await height(), await apart()];
  await card.approve.click();
  await expect(card.root).toContainText("Approved once by you");
  expect((await card.root.locator("> *").boundingBox())!.height).toBeLessThan(tall / 2);
  expect(await apart()).toBeGreaterThan(far - tall / 3);
  await page.mouse.move(2, 2);
  await expect.poll(apart).toBeLessThan(far - tall / 3);
});
