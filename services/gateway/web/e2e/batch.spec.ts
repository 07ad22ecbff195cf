// Very many at once: rows that decide only what they show, and one press for
// several that were all read.
import { clean } from "./support/axe.ts";
import { command, inSession, kind } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";
import type { Asked, Asker, Request } from "./support/asker.ts";

const reading: Request = { kind: "approval", agent_name: "Build agent", title: "Look at the config", tool: { name: "Read", input: { file_path: "/srv/shop/config.yaml" } } };

async function many(asker: Asker, n: number): Promise<Asked[]> {
  const list: Asked[] = [];
  for (let i = 0; i < n; i++) list.push(await asker.ask(inSession(command(`part-${i}`), SESSION)));
  return list;
}

test("a row decides only what it shows whole and what is harmless, the rest is opened B-54", async ({ app, asker }) => {
  const harmless = await asker.ask(inSession(reading, SESSION));
  const asked = await many(asker, 6);
  const question = await asker.ask(inSession(kind("question").request, SESSION));
  const simple = await asker.ask(inSession({ kind: "question", agent_name: "Build agent", title: "Where?", questions: [{ id: "r", question: "Which region?", options: [{ label: "eu" }, { label: "us" }] }] }, SESSION));
  const long = await asker.ask(inSession(command("x", { tool: { name: "Bash", input: { command: `printf '%s' ${"harmless ".repeat(55)}; rm -rf /srv/production` } } }), SESSION));
  await app.overview();
  await expect(app.row(harmless).root).toContainText("/srv/shop/config.yaml");
  await expect(app.row(harmless).approve).toBeVisible();
  for (const a of [asked[0]!, question, long]) {
    await expect(app.row(a).approve).toHaveCount(0);
    await expect(app.row(a).open).toHaveAccessibleName(/^Review/);
  }
  await clean(app.page, "overview", { pictures: true });

  await app.row(harmless).approve.click();
  expect((await harmless.answer()).outcome).toBe("allowed");
  await app.row(simple).root.getByRole("button", { name: "us" }).click();
  expect((await simple.answer()).outcome).toBe("answered");
  // What needs to be read becomes its card, where it stands.
  await app.row(long).open.click();
  const card = app.card(long);
  await card.is("pending");
  await expect(card.root).toBeFocused();
  await card.reads("rm -rf /srv/production");
  await card.deny.click();
  await card.is("confirmed");
});

test("several are read in full and decided once each; one that fails says why and the rest stays B-04 invariant6", async ({ app, product, asker }) => {
  const asked = await many(asker, 10);
  const [a, b, c, left] = asked as [Asked, Asked, Asked, Asked];
  const colleague = await product.colleague("Grace");
  await app.overview();
  await app.row(a).select.check();
  await app.row(b).select.check();
  // And by key.
  await app.row(c).root.focus();
  await app.page.waitForTimeout(450);
  await app.page.keyboard.press("x");
  await expect(app.selection).toContainText("3 selected");
  await clean(app.page, "selection");
  await app.selection.getByRole("button", { name: "Review them all" }).click();
  await expect(app.sheet).toHaveAccessibleName("Decide 3 requests");
  for (const i of [0, 1, 2]) await expect(app.sheet).toContainText(`make part-${i}`);
  await expect(app.sheet).not.toContainText("make part-3");
  await clean(app.page, "batch", { pictures: true });

  await app.sheet.getByRole("list").evaluate((e) => e.scrollTo(0, e.scrollHeight));
  product.line.hold();
  await colleague.decide(b.key, { decision: "deny" });
  await app.sheet.getByRole("button", { name: /^Approve all 3, once/ }).click();
  expect((await a.answer()).outcome).toBe("allowed");
  product.line.release();
  await expect(app.sheet).toContainText("2 decided.");
  await expect(app.sheet).toContainText(/1 not/);
  await expect(app.sheet).toContainText(/Grace/);
  expect((await b.answer()).outcome).toBe("denied");
  expect((await c.answer()).outcome).toBe("allowed");
  await clean(app.page, "batch decided");
  await app.sheet.getByRole("button", { name: "Close" }).last().click();
  await expect(app.sheet).toHaveCount(0);
  // What was not selected is as it was.
  await expect(app.page).toHaveTitle("(7) Banksman");
  expect(asked.slice(3).some((x) => x.answered())).toBe(false);
  await expect(app.row(left).root).toHaveAttribute("data-state", "pending");
  for (const x of [a, c]) expect((await product.interaction(x.key)).decision?.scope ?? "once").toBe("once");
});

test("a card that arrives moves nothing that is under the pointer", async ({ app, asker }) => {
  const first = await asker.ask(inSession(command("first"), SESSION));
  const card = app.card(first);
  await card.is("pending");
  const before = await card.deny.boundingBox();
  await asker.ask(inSession(command("second"), SESSION));
  await expect(app.cards()).toHaveCount(2);
  expect(await card.deny.boundingBox()).toEqual(before);
});
