// "Always", truthfully: what a rule would let through is read before it is made,
// and its end is one press away.
import { clean } from "./support/axe.ts";
import { command, inSession } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";

test("a rule is read before it is made, decides the same again and nothing else, and is revoked B-59", async ({ app, asker }) => {
  const { page } = app;
  const first = await asker.ask(inSession(command("check"), SESSION));
  const card = await app.open(first);
  await card.always.click();
  await expect(app.menu).toBeVisible();
  await clean(page, "rule menu");
  if (!(await app.menu.isVisible())) await card.always.click();
  await app.menu.getByRole("menuitem", { name: /^In this session/ }).click();
  await expect(app.ruleSheet).toContainText("make check");
  await expect(app.ruleSheet).toContainText("Still comes to you");
  await clean(page, "rule sheet", { pictures: true });
  expect(first.answered()).toBe(false);
  await app.ruleSheet.getByRole("button", { name: "Make the rule and approve this" }).click();
  await expect(app.ruleSheet).toHaveCount(0);
  expect((await first.answer()).outcome).toBe("allowed");
  await card.isOver();

  // The same again asks nobody, and says by what it was allowed.
  const again = await asker.ask(inSession(command("check"), SESSION));
  expect((await again.answer()).outcome).toBe("allowed");
  const receipt = await app.open(again);
  await receipt.reads(/rule/i);
  // What does more than the rule says is asked.
  const more = await asker.ask(inSession(command("check", { tool: { name: "Bash", input: { command: "make check; rm -rf /srv/shop" } } }), SESSION));
  await (await app.open(more)).is("pending");

  await app.go("rules");
  const active = page.getByRole("list", { name: "Rules in force" });
  await expect(active).toContainText("make check");
  await expect(active).toContainText(/used once|used 2 times/);
  await clean(page, "rules", { pictures: true });
  // What it matches is changed as a new version, which is read first.
  await active.getByRole("button", { name: "Change…" }).click();
  await active.getByRole("button", { name: "What it matches…" }).click();
  await expect(app.ruleSheet).toContainText("So it is now");
  await app.ruleSheet.getByLabel(/^the command make check/i).check();
  await expect(app.ruleSheet).toContainText("It would be");
  await clean(page, "rule, what it matches", { pictures: true });
  await app.ruleSheet.getByRole("button", { name: /^Change the rule$/ }).click();
  await expect(app.ruleSheet).toHaveCount(0);
  await expect(active).toContainText("Version 2: matches something else");
  await expect(active).toContainText(/Before: Allows exactly this command: make check/);
  const wider = await asker.ask(inSession(command("check", { tool: { name: "Bash", input: { command: "make  check" } } }), SESSION));
  expect((await wider.answer()).outcome).toBe("allowed");
  await active.getByRole("button", { name: /^Revoke/ }).click();
  await active.getByRole("button", { name: "Revoke it now" }).click();
  await expect(page.getByRole("list", { name: "Rules that ended" })).toContainText(/Revoked/);
  await expect(page.getByText("No rule is in force")).toBeVisible();
  const after = await asker.ask(inSession(command("check"), SESSION));
  await (await app.open(after)).is("pending");
  expect(after.answered() || more.answered()).toBe(false);
});
