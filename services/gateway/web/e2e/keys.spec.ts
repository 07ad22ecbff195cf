// Keys are quick where they are meant, and decide nothing anywhere else.
import type { Locator } from "@playwright/test";
import { command, FEATURES, inSession, kind } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";
import type { App } from "./support/ui.ts";

/** Longer than the pause after a card got the focus and after each key. */
const QUIET = 450;

/** Every key that means something in a card, one after the other, slowly enough to count. */
async function typeAll(app: App, field: Locator): Promise<string> {
  const text = "ynre1293jkx?a";
  await field.focus();
  for (const c of text) await app.page.keyboard.press(c, { delay: 0 });
  await app.page.waitForTimeout(QUIET);
  for (const c of "yn1") {
    await app.page.keyboard.press(c);
    await app.page.waitForTimeout(QUIET);
  }
  return `${text}yn1`;
}

test("typing decides nothing, in every text field, also while a card arrives B-60 D0-42", async ({ app, asker }) => {
  const approval = await asker.ask(inSession(command("first"), SESSION));
  const question = await asker.ask(inSession(kind("question").request, SESSION));
  const form = await asker.ask(inSession(kind("form").request, SESSION));
  const all = [approval, question, form];

  const fields: [string, () => Promise<Locator>][] = [
    ["the reason of a denial", async () => {
      const c = await app.open(approval);
      await c.denyWithReason.click();
      return c.reason;
    }],
    ["the edited input", async () => {
      const c = await app.open(approval);
      await c.root.getByRole("button", { name: /^Cancel/ }).click();
      await c.edit.click();
      return c.editText;
    }],
    ["an own answer", async () => (await app.open(question)).own(FEATURES)],
    ["words in place of an answer", async () => {
      const c = await app.open(question);
      await c.clarify.click();
      return c.clarifyText;
    }],
    ["a field of a form", async () => (await app.open(form)).root.getByRole("textbox").first()],
    ["the task of a new session", async () => {
      await app.go("new");
      return app.page.getByRole("textbox", { name: /What should the agent do/ });
    }],
    ["the directory of a new session", async () => app.page.getByRole("combobox", { name: "Working directory" })],
  ];
  for (const [name, field] of fields) {
    await test.step(name, async () => {
      const box = await field();
      await box.fill("");
      const arrival = asker.ask(inSession(command(`while-typing`), SESSION));
      const text = await typeAll(app, box);
      all.push(await arrival);
      await expect(box).toHaveValue(text);
      await expect(box).toBeFocused();
      await expect(app.help).toHaveCount(0);
      for (const a of all) expect(a.answered(), a.name).toBe(false);
    });
  }
  await test.step("the message to an agent, while its request arrives", async () => {
    // A session of its own, in which nothing waits yet.
    await asker.session("talk", "Talk", "user_turn");
    await app.go("s/default.agents.talk");
    const box = app.page.getByRole("textbox", { name: "Message to the agent" });
    await box.focus();
    await app.page.keyboard.type("yn");
    const arrived = await asker.ask(inSession(command("in-the-way"), "talk"));
    await app.card(arrived).is("pending");
    await app.page.waitForTimeout(QUIET);
    for (const c of ["y", "n", "1", "Enter"]) {
      await app.page.keyboard.press(c);
      await app.page.waitForTimeout(QUIET);
    }
    await expect(box).toBeFocused();
    await expect(box).toHaveValue("ynyn1");
    expect(arrived.answered()).toBe(false);
  });
});

test("a key counts a moment after the card got the focus, and not before B-60", async ({ app, asker }) => {
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const card = await app.open(asked);
  // Nothing has the focus: the key is nobody's.
  await app.page.keyboard.press("y");
  await app.page.waitForTimeout(QUIET);
  await app.page.keyboard.press("y");
  await card.is("pending");
  // Within the pause, and each key begins it anew.
  await card.root.focus();
  for (let i = 0; i < 6; i++) await app.page.keyboard.press("y");
  await card.is("pending");
  expect(asked.answered()).toBe(false);
  await app.page.waitForTimeout(QUIET);
  await app.page.keyboard.press("y");
  await card.is("confirmed");
  await card.reads("Approved once by you");
  expect((await asked.answer()).outcome).toBe("allowed");
});

test("Esc answers nothing, anywhere D1-36", async ({ app, asker }) => {
  const approval = await asker.ask(inSession(command("deploy"), SESSION));
  const question = await asker.ask(inSession(kind("question").request, SESSION));
  let card = await app.open(approval);
  await card.root.focus();
  await app.page.waitForTimeout(QUIET);
  await app.page.keyboard.press("Escape");
  await card.denyWithReason.click();
  await card.reason.fill("because");
  await app.page.keyboard.press("Escape");
  await expect(card.reason).toHaveCount(0);
  await card.is("pending");
  await card.edit.click();
  await expect(card.editText).toBeFocused();
  await app.page.keyboard.press("Escape");
  await expect(card.editText).toHaveCount(0);
  await card.is("pending");
  card = await app.open(question);
  await card.option("Postgres").check();
  await app.page.keyboard.press("Escape");
  await card.clarify.click();
  await card.clarifyText.fill("first tell me");
  await app.page.keyboard.press("Escape");
  await expect(card.clarifyText).toHaveCount(0);
  await card.is("pending");
  await expect(card.option("Postgres")).toBeChecked();
  expect(approval.answered() || question.answered()).toBe(false);
});

test("from the keyboard alone: j, k, n, digits, Ctrl+Enter and a reason D1-36", async ({ app, asker }) => {
  const one = await asker.ask(inSession(command("one"), SESSION));
  const two = await asker.ask(inSession(command("two"), SESSION));
  const three = await asker.ask(inSession(kind("question").request, SESSION));
  for (const a of [one, two, three]) await app.card(a).is("pending");
  const keys = async (...list: string[]) => {
    for (const k of list) {
      await app.page.waitForTimeout(QUIET);
      await app.page.keyboard.press(k);
    }
  };
  await app.card(one).root.focus();
  await keys("j");
  await expect(app.card(two).root).toBeFocused();
  await keys("n");
  await app.card(two).reads("Denied by you");
  await keys("k");
  await expect(app.card(one).root).toBeFocused();
  await keys("r");
  await expect(app.card(one).reason).toBeFocused();
  await app.page.keyboard.type("not yet, y n");
  await app.page.keyboard.press("Enter");
  await app.card(one).reads("Denied by you", "not yet, y n");
  await app.card(three).root.focus();
  await keys("2");
  await expect(app.card(three).option("SQLite")).toBeChecked();
  await app.card(three).option("Login").focus();
  await keys("1", "Control+Enter");
  await app.card(three).reads("Answered by you", "SQLite", "Login");
  expect((await one.answer()).message).toContain("not yet, y n");
  expect((await two.answer()).outcome).toBe("denied");
});

test("the first control that decides is within three stops of a card", async ({ app, asker }) => {
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const card = await app.open(asked);
  for (const size of [{ width: 1280, height: 800 }, { width: 390, height: 844 }]) {
    await app.page.setViewportSize(size);
    await card.root.focus();
    const stops: string[] = [];
    for (let i = 0; i < 3; i++) {
      await app.page.keyboard.press("Tab");
      stops.push(await app.page.evaluate(() => document.activeElement?.textContent ?? ""));
    }
    expect(stops.some((s) => /^(Deny|Approve)/.test(s) && !s.startsWith("Deny with reason")), stops.join(" | ")).toBe(true);
  }
});

test("single keys can be switched off, for good B-60", async ({ app, asker }) => {
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const card = app.card(asked);
  await card.is("pending");
  await app.page.keyboard.press("?");
  await app.help.getByRole("checkbox").uncheck();
  await app.help.getByRole("button", { name: "Close" }).click();
  await app.page.reload();
  await card.is("pending");
  await card.root.focus();
  await app.page.waitForTimeout(QUIET);
  await app.page.keyboard.press("y");
  await app.page.waitForTimeout(QUIET);
  await app.page.keyboard.press("n");
  await card.is("pending");
  expect(asked.answered()).toBe(false);
  await card.approve.click();
  await card.is("confirmed");
});
