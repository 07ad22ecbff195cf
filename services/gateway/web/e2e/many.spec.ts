// Very many wait: the page stays usable. Figures are reported, not judged.
import { command, inSession } from "./support/requests.ts";
import { expect, test } from "./support/test.ts";

const MANY = 500;
const SESSIONS = 5;

interface Seen { frames: number[]; long: number[] }

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

  const seen = await page.evaluate(async (): Promise<Seen> => {
    const long: number[] = [];
    new PerformanceObserver((list) => long.push(...list.getEntries().map((e) => e.duration))).observe({ type: "longtask" });
    const scroller = [...document.querySelectorAll<HTMLElement>("main, main *")].find((e) => e.scrollHeight > e.clientHeight * 3 && /auto|scroll/.test(getComputedStyle(e).overflowY))!;
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
    return { frames, long };
  });
  const sorted = [...seen.frames].sort((a, b) => a - b);
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  const figures = {
    drawn: await app.page.locator("[data-row]").count(), nodes, frames: sorted.length,
    median_ms: Math.round(sorted[sorted.length >> 1]!), p95_ms: Math.round(sorted[Math.floor(sorted.length * 0.95)]!), slowest_ms: Math.round(sorted.at(-1)!),
    long_tasks: seen.long.length, longest_task_ms: Math.round(Math.max(0, ...seen.long)),
  };
  info.annotations.push({ type: "figures", description: JSON.stringify(figures) });
  console.log(`500 pending: ${JSON.stringify(figures)}`);
  // Structural: nothing keeps a key or a press waiting for seconds.
  expect(figures.longest_task_ms).toBeLessThan(2000);

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
