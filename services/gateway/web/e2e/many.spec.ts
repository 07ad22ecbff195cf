// Very many wait: the page stays usable. Figures are reported, not judged.
import type { Page, TestInfo } from "@playwright/test";
import { command, inSession } from "./support/requests.ts";
import { expect, test } from "./support/test.ts";

const MANY = 500;
const SESSIONS = 5;

interface Seen { frames: number[]; long: number[] }

/** Scrolls from the first to the last line of what a selector names, in 120 steps, and says how it went. */
async function scroll(page: Page, info: TestInfo, what: string, selector: string): Promise<void> {
  const seen = await page.evaluate(async (where): Promise<Seen> => {
    const long: number[] = [];
    const observer = new PerformanceObserver((list) => long.push(...list.getEntries().map((e) => e.duration)));
    observer.observe({ type: "longtask" });
    const scroller = [...document.querySelectorAll<HTMLElement>(where)].find((e) => e.scrollHeight > e.clientHeight * 3 && /auto|scroll/.test(getComputedStyle(e).overflowY))!;
    const frames: number[] = [];
    let last = performance.now();
    for (let i = 0; i < 120; i++) {
      scroller.scrollTop += scroller.clientHeight / 2;
      await new Promise((done) => requestAnimationFrame(done));
      const now = performance.now();
      frames.push(now - last);
      last = now;
    }
    scroller.scrollTop = scroller.scrollHeight;
    await new Promise((done) => setTimeout(done, 200));
    observer.disconnect();
    return { frames, long };
  }, selector);
  const sorted = [...seen.frames].sort((a, b) => a - b);
  const figures = {
    drawn: await page.locator("[data-row]").count(), nodes: await page.evaluate(() => document.querySelectorAll("*").length), frames: sorted.length,
    median_ms: Math.round(sorted[sorted.length >> 1]!), p95_ms: Math.round(sorted[Math.floor(sorted.length * 0.95)]!), slowest_ms: Math.round(sorted.at(-1)!),
    long_tasks: seen.long.length, longest_task_ms: Math.round(Math.max(0, ...seen.long)),
  };
  info.annotations.push({ type: "figures", description: `${what}: ${JSON.stringify(figures)}` });
  console.log(`${what}: ${JSON.stringify(figures)}`);
  // Structural: nothing keeps a key or a press waiting for seconds.
  expect(figures.longest_task_ms, what).toBeLessThan(2000);
}

test("500 wait: all are there, scrolling and typing go on, and the end can be decided", async ({ app, asker }, info) => {
  test.setTimeout(240_000);
  const { page } = app;
  for (let i = 0; i < SESSIONS; i++) await asker.session(`s${i}`, `Session ${i}`);
  const asked = await Promise.all(Array.from({ length: MANY }, (_, i) => asker.ask(inSession(command(`target-${i}`), `s${i % SESSIONS}`))));
  await expect(page).toHaveTitle(`(${MANY}) Banksman`, { timeout: 60_000 });
  await page.reload();
  await expect(page).toHaveTitle(`(${MANY}) Banksman`, { timeout: 60_000 });
  await app.overview();
  await expect(app.row(asked[0]!).root).toBeVisible();

  await scroll(page, info, "500 pending", "main, main *");

  // The last one can be reached and decided, and only it is.
  const last = asked.at(-1)!;
  await app.row(last).root.scrollIntoViewIfNeeded();
  await app.row(last).open.click();
  const card = app.card(last);
  await card.is("pending");
  await card.deny.click();
  await card.is("confirmed");
  expect((await last.answer()).outcome).toBe("denied");
  await expect(page).toHaveTitle(`(${MANY - 1}) Banksman`);
  expect(asked.filter((a) => a.answered())).toHaveLength(1);
});

test("500 wait in 500 sessions: the list and the sessions beside it scroll, one that ends moves neither, and the last one leads to its request", async ({ app, asker }, info) => {
  test.setTimeout(400_000);
  const { page } = app;
  await Promise.all(Array.from({ length: MANY }, (_, i) => asker.session(`s${i}`, `Session ${i}`)));
  const asked = await Promise.all(Array.from({ length: MANY }, (_, i) => asker.ask(inSession(command(`target-${i}`), `s${i}`))));
  await expect(page).toHaveTitle(`(${MANY}) Banksman`, { timeout: 120_000 });
  await page.reload();
  await expect(page).toHaveTitle(`(${MANY}) Banksman`, { timeout: 60_000 });
  await app.overview();
  const sessions = page.getByRole("complementary");
  const entry = (i: number) => sessions.getByTestId(`session-default.agents.s${i}`);
  await expect(sessions.getByRole("link", { name: /waiting for your answer/ })).toHaveCount(MANY);
  await scroll(page, info, "500 sessions, list", "main, main *");
  await scroll(page, info, "500 sessions, sidebar", "aside, aside *");

  // One that was not looked at ends: what one looks at stays where it is.
  const [oldest, newest] = [entry(0), entry(MANY - 1)];
  await newest.scrollIntoViewIfNeeded();
  const ended = asked[MANY >> 1]!;
  ended.withdraw();
  await expect(page).toHaveTitle(`(${MANY - 1}) Banksman`);
  await expect(sessions.getByRole("link", { name: /waiting for your answer/ })).toHaveCount(MANY - 1);
  await expect(newest).toBeInViewport();

  await oldest.scrollIntoViewIfNeeded();
  await oldest.click();
  await expect(page.getByRole("heading", { name: "Session 0" })).toBeVisible();
  const card = app.card(asked[0]!);
  await card.isWhole();
  await card.deny.click();
  expect((await asked[0]!.answer()).outcome).toBe("denied");
  await expect(page.getByRole("log", { name: "Conversation" })).toContainText("Denied by you");
  await expect(oldest).not.toContainText("waiting for your answer");
  await expect(page).toHaveTitle(`(${MANY - 2}) Banksman`);
  expect(asked.filter((a) => a !== ended && a.answered())).toHaveLength(1);
});
