// Sessions that are long, that are several, that lose their worker, that wait for one,
// and that come back after everything died.
import type { Locator } from "@playwright/test";
import { settled } from "./support/axe.ts";
import { command, inSession } from "./support/requests.ts";
import { expect, faults, SESSION, test } from "./support/test.ts";
import { Team } from "./support/team.ts";
import { App } from "./support/ui.ts";

test("a session of 500 steps: what one reads stays where it is, whatever comes at its end or before its beginning", async ({ app, asker }) => {
  const { page } = app;
  const say = (i: number) => asker.event(SESSION, "text", { role: i % 5 === 0 ? "user" : "assistant", text: `step number ${i}.\nIts second line.` });
  await Promise.all(Array.from({ length: 500 }, (_, i) => say(i)));
  await page.evaluate(() => {
    const w = window as unknown as { longest: number };
    w.longest = 0;
    new PerformanceObserver((list) => { for (const e of list.getEntries()) w.longest = Math.max(w.longest, e.duration); }).observe({ type: "longtask" });
  });
  await app.go("s/default.agents.release");
  const log = page.getByRole("log", { name: "Conversation" });
  const step = (i: number) => log.getByText(`step number ${i}.`);
  await expect(step(499)).toBeInViewport();
  const y = async (where: Locator) => (await where.boundingBox())!.y;
  const stays = async (where: Locator, what: () => Promise<unknown>) => {
    const before = await y(where);
    await what();
    await settled(page);
    expect(Math.abs((await y(where)) - before)).toBeLessThan(3);
  };
  await test.step("what comes does not move who reads further up", async () => {
    await step(400).evaluate((e) => e.scrollIntoView({ block: "center" }));
    await expect(page.getByRole("button", { name: "To the end" })).toBeVisible();
    await stays(step(400), async () => {
      for (let i = 500; i < 520; i++) await say(i);
      await expect(log).toContainText("step number 519.");
    });
  });
  const earlier = page.getByRole("button", { name: /earlier steps of/ });
  await test.step("not at the first step that is drawn either", async () => {
    await log.evaluate((e) => e.scrollTo(0, 0));
    await expect(earlier).toBeVisible();
    const first = log.getByText(/^step number \d+\./).first();
    const name = (await first.textContent())!.split("\n")[0]!;
    await stays(log.getByText(name), async () => {
      for (let i = 520; i < 530; i++) await say(i);
      await expect(log).toContainText("step number 529.");
    });
  });
  await test.step("earlier steps come above", async () => {
    const name = (await log.getByText(/^step number \d+\./).first().textContent())!.split("\n")[0]!;
    await stays(log.getByText(name), async () => {
      await earlier.click();
      await expect(log.getByText(/^step number \d+\./).first()).not.toContainText(name);
    });
  });
  await test.step("and back at the end", async () => {
    await page.getByRole("button", { name: "To the end" }).click();
    await expect(step(529)).toBeInViewport();
    await say(530);
    await expect(step(530)).toBeInViewport();
  });
  // Structural: nothing keeps a key or a press waiting for seconds.
  expect(await page.evaluate(() => (window as unknown as { longest: number }).longest)).toBeLessThan(2000);
});

test("three sessions that all wait, side by side: each shows its own, and each answer goes to its own B-14 B-25 B-38", async ({ app, asker }) => {
  const names = ["one", "two", "three"];
  const all = [];
  for (const n of names) {
    await asker.session(n, `Session ${n}`);
    all.push({ n, asked: await asker.ask(inSession(command(n), n)), tab: n === "one" ? app : await app.tab() });
  }
  for (const { n, asked, tab } of all) {
    await tab.go(`s/default.agents.${n}`);
    await tab.card(asked).isWhole();
    await expect(tab.cards()).toHaveCount(1);
    await expect(tab.page).toHaveTitle("(3) Banksman");
    await tab.card(asked).denyWithReason.click();
    await tab.card(asked).reason.fill(`not ${n}`);
  }
  for (const { n, asked, tab } of all.toReversed()) {
    await tab.card(asked).sendReason.click();
    expect((await asked.answer()).message).toContain(`not ${n}`);
    await expect(tab.cards()).toHaveCount(0);
    // Only those that wait are marked, in every tab.
    for (const other of all) {
      const marks = other.tab.page.getByRole("complementary").getByRole("link", { name: /waiting for your answer/ });
      await expect(marks).toHaveCount(all.filter((x) => !x.asked.answered()).length);
    }
  }
});

test.describe("a worker that is lost", () => {
  test.use({ flags: ["--orphan-after", "25s"] });

  test("its session says so, takes answers until it is given up, and then says what became of what waited B-37 B-48 D1-16", async ({ app, asker }) => {
    const { page } = app;
    const asked = await asker.ask(inSession(command("deploy"), SESSION));
    await app.go("s/default.agents.release");
    const card = app.card(asked);
    await card.denyWithReason.click();
    await card.reason.fill("half a thought");
    await asker.kill();
    await expect(page.getByText("The worker does not answer at the moment.")).toBeVisible({ timeout: 60_000 });
    await card.reads("The agent cannot be reached at the moment");
    await expect(page.getByText(/^Working/)).toHaveCount(0);
    const log = page.getByRole("log", { name: "Conversation" });
    await expect(log).toContainText("Ended without a decision: the agent is gone", { timeout: 60_000 });
    await expect(app.cards()).toHaveCount(0);
    await expect(log).toContainText("half a thought");
    await expect(page).toHaveTitle("Banksman");
  });
});

test("kill -9 of everything while a session waits: the same request, deadline and half a thought, and it goes on B-18 B-48 D1-28 invariant3", async ({ app, product }) => {
  const { page } = app;
  await page.getByRole("button", { name: "Start a demo" }).click();
  await expect(page).toHaveURL(/#\/s\//);
  const card = app.cards().filter({ hasText: "git status --short" });
  await expect(card).toBeVisible();
  const id = await card.getAttribute("data-testid");
  const list = async () => (await product.call<{ interactions: { key: string; expires_at: string }[] }>("GET", "/api/interactions")).body.interactions;
  const [before] = await list();
  await card.getByRole("button", { name: /^Deny with reason/ }).click();
  await card.getByRole("textbox", { name: /Why not/ }).fill("half a thought");
  await product.kill();
  await expect(app.connection).toContainText(/Connection lost|Connecting again/);
  await product.again();
  await expect(app.connection).toHaveText(/^Connected/);
  await expect(card).toHaveAttribute("data-testid", id!);
  await expect(card.getByRole("textbox", { name: /Why not/ })).toHaveValue("half a thought");
  await page.reload();
  await expect(card.getByRole("textbox", { name: /Why not/ })).toHaveValue("half a thought");
  const [after] = await list();
  expect([after!.key, after!.expires_at]).toEqual([before!.key, before!.expires_at]);
  await card.getByRole("button", { name: /^Deny with this reason/ }).click();
  await expect(app.cards().filter({ hasText: "config.yaml" })).toBeVisible();
  await expect(page.getByRole("log", { name: "Conversation" })).toContainText("half a thought");
});

test("a start that no worker takes waits, says so, and begins by itself D1-33 D3-08", async ({ page }, info) => {
  const team = await Team.start();
  try {
    const wrong = faults(page);
    const app = new App(page, team);
    await app.signIn();
    await app.go("new");
    await expect(page.getByTestId("no-worker")).toBeVisible();
    const worker = await team.worker();
    await expect(page.getByTestId("no-worker")).toHaveCount(0);
    // It dies, and nobody has missed its word yet.
    await worker.kill();
    await page.getByRole("textbox", { name: "What should the agent do?" }).fill("Prepare it");
    await page.getByRole("combobox", { name: "Working directory" }).fill(team.home);
    await page.getByRole("combobox", { name: "Runtime" }).selectOption("demo");
    await page.getByRole("button", { name: "Start session" }).click();
    await expect(page.getByTestId("session-queued")).toContainText("Waiting for a worker to take it.");
    await page.reload();
    await expect(page.getByTestId("session-queued")).toContainText("Waiting for a worker to take it.");
    await team.worker();
    await expect(app.cards().filter({ hasText: "git status --short" })).toBeVisible({ timeout: 60_000 });
    await expect(page.getByRole("log", { name: "Conversation" })).toContainText("Prepare it");
    await expect(page.getByTestId("session-queued")).toHaveCount(0);
    expect(wrong).toEqual([]);
  } finally {
    if (info.status !== info.expectedStatus) await info.attach("output of the product", { body: team.output(), contentType: "text/plain" });
    await team.end();
  }
});
