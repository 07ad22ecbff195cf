// What a rule and a batch do to what waits is seen in every tab alike.
import { command, inSession, kind } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";

test("a rule decides of what waits only what was ticked, and both tabs tell it B-59 D1-41 invariant8", async ({ app, product, asker }) => {
  const first = await asker.ask(inSession(command("check"), SESSION));
  const ticked = await asker.ask(inSession(command("check"), SESSION));
  const left = await asker.ask(inSession(command("check"), SESSION));
  const other = await asker.ask(inSession(command("deploy"), SESSION));
  const tab = await app.tab();
  for (const t of [app, tab]) {
    await t.wholeCards();
    for (const a of [first, ticked, left, other]) await t.card(a).is("pending");
  }
  // What is half written at the other tab stays, whatever the rule does.
  await tab.card(ticked).denyWithReason.click();
  await tab.card(ticked).reason.fill("not before Grace has seen it");
  await app.card(first).always.click();
  await app.menu.getByRole("menuitem", { name: /^In this session/ }).click();
  const waits = app.ruleSheet.getByRole("group", { name: "Waits now, and the rule would decide it" });
  await expect(waits.getByRole("checkbox")).toHaveCount(3);
  await expect(waits).not.toContainText("make deploy");
  await expect(waits.getByRole("checkbox", { name: /^This request/ })).toBeChecked();
  // They read alike; the oldest stands first.
  const too = waits.getByRole("checkbox", { name: /^Approve it too/ });
  for (const box of await too.all()) await expect(box).not.toBeChecked();
  await too.first().check();
  await app.ruleSheet.getByRole("button", { name: "Make the rule and approve 2" }).click();
  await expect(app.ruleSheet).toHaveCount(0);
  expect((await first.answer()).outcome).toBe("allowed");
  for (const t of [app, tab]) await expect(t.page).toHaveTitle("(2) Banksman");
  const done = [ticked, left].filter((a) => a.answered());
  expect(done).toHaveLength(1);
  const still = done[0] === ticked ? left : ticked;
  for (const t of [app, tab]) {
    for (const a of [first, done[0]!]) {
      await t.card(a).reads("Approved");
      await t.card(a).isOver();
    }
    for (const a of [still, other]) await t.card(a).is("pending");
  }
  if (done[0] === ticked) await expect(tab.card(ticked).unsent).toContainText("not before Grace has seen it");
  expect((await product.interaction(done[0]!.key)).outcome).toBe("allowed");
  // The next one of that text asks nobody, in no tab.
  const next = await asker.ask(inSession(command("check"), SESSION));
  expect((await next.answer()).outcome).toBe("allowed");
  for (const t of [app, tab]) await expect(t.page).toHaveTitle("(2) Banksman");
});

test("two tabs of one person share what is half written, and neither erases it B-25 D0-37 D1-40", async ({ app, asker }) => {
  const asked = await asker.ask(inSession(command("check"), SESSION));
  const tab = await app.tab();
  await app.card(asked).denyWithReason.click();
  await app.card(asked).reason.fill("not before Grace has seen it");
  await expect(tab.card(asked).root).toContainText("Not sent, and kept: your reason.");
  // The key alone, which writes nothing.
  await tab.card(asked).denyWithReason.click();
  await expect(tab.card(asked).reason).toHaveValue("not before Grace has seen it");
  await tab.card(asked).reason.press("Escape");
  await app.page.reload();
  await expect(app.card(asked).root).toContainText("Not sent, and kept: your reason.");
  // Denied without it: that it was not sent is told in both, and is still there after a reload.
  await tab.card(asked).deny.click();
  expect((await asked.answer()).outcome).toBe("denied");
  for (const t of [app, tab]) await expect(t.card(asked).unsent).toContainText("not before Grace has seen it");
  await app.open(asked);
  await app.page.reload();
  await expect(app.card(asked).unsent).toContainText("not before Grace has seen it");
});

test("a batch in one tab is told in the other, and what was half written there stays B-04 B-17 D1-41", async ({ app, asker }) => {
  const asked = [];
  for (const w of ["one", "two", "three"]) asked.push(await asker.ask(inSession(command(w), SESSION)));
  const question = await asker.ask(inSession(kind("question").request, SESSION));
  const [one, two, three] = asked as [typeof question, typeof question, typeof question];
  const tab = await app.tab();
  await tab.wholeCards();
  await tab.card(two).denyWithReason.click();
  await tab.card(two).reason.fill("first tell me why");
  await app.overview();
  for (const a of [one, two]) await app.row(a).select.check();
  await app.selection.getByRole("button", { name: "Review them all" }).click();
  await app.sheet.getByRole("list").evaluate((e) => e.scrollTo(0, e.scrollHeight));
  await app.sheet.getByRole("button", { name: /^Approve all 2, once/ }).click();
  await expect(app.sheet).toContainText("2 decided.");
  for (const a of [one, two]) {
    expect((await a.answer()).outcome).toBe("allowed");
    await tab.card(a).reads("Approved once by you");
    await tab.card(a).isOver();
  }
  await expect(tab.card(two).unsent).toContainText("first tell me why");
  for (const t of [app, tab]) await expect(t.page).toHaveTitle("(2) Banksman");
  await tab.card(three).is("pending");
  await tab.card(question).is("pending");
  expect(three.answered() || question.answered()).toBe(false);
});
