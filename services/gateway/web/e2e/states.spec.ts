// Every state of every card, as a person reads it, and as axe sees it.
import { clean } from "./support/axe.ts";
import { inSession, kinds } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";

for (const kind of kinds) {
  test(`every state of a ${kind.name} D0-31 D0-35 D0-37 D0-39 D1-41 B-17 B-29 B-30 B-31 invariant6`, async ({ app, product, asker }) => {
    const ask = (more = {}) => asker.ask(inSession(kind.request, SESSION, more));
    const check = async (state: string, o: Parameters<typeof clean>[2] = {}) => clean(app.page, `${kind.name} ${state}`, o);

    const mine = await ask();
    let card = await app.open(mine);
    await test.step("pending", async () => {
      await card.is("pending");
      await check("pending", { pictures: true });
      await card.seeAll();
      await card.reads(...kind.reads, "Asked", /min left/);
    });

    await test.step("refused: why, and it can be said again", async () => {
      await kind.refuse(card);
      await card.is("refused");
      await card.reads(kind.refused, "The request still waits");
      expect(mine.answered()).toBe(false);
      await check("refused", { pictures: true });
    });

    await app.page.reload();
    await card.isWhole();
    await test.step("sending: nothing can be pressed", async () => {
      product.line.hold();
      if (await card.approveEdited.isVisible()) await card.root.getByRole("button", { name: /^Cancel/ }).click();
      await kind.answer(card);
      await card.is("sending");
      await card.reads("Waiting for the server’s word");
      await card.isDead();
      await check("sending", { still: () => expect(card.root).toHaveAttribute("data-state", "sending", { timeout: 1 }), again: async () => {
        await card.is("unsure");
        await kind.again(card);
      } });
    });

    await test.step("unsure: five seconds without a word, then it can be pressed again", async () => {
      await card.is("unsure");
      await card.reads("it counts only once");
      await check("unsure");
      await kind.again(card);
      await card.is("sending");
    });

    await test.step("confirmed: said twice, counted once, and what became of it", async () => {
      product.line.release();
      await card.is("confirmed");
      await card.reads(kind.confirmed, "web", "Delivered to the agent");
      await card.isOver();
      expect((await mine.answer()).outcome).toBe(kind.outcome);
      await check("confirmed", { pictures: true });
    });

    const colleague = await product.colleague("Grace");
    await test.step("lost: who was first, and with what", async () => {
      const asked = await ask();
      card = await app.open(asked);
      await card.isWhole();
      if (kind.request.kind === "approval") await card.seeAll();
      product.line.hold();
      await colleague.decide(asked.key, kind.other);
      await kind.answer(card);
      await card.is("sending");
      product.line.release();
      await card.is("lost");
      await card.reads(`Grace was first: ${kind.otherWord}`);
      await card.isOver();
      await check("lost", { pictures: true });
    });

    await test.step("decided by somebody else while one looks", async () => {
      const asked = await ask();
      card = await app.open(asked);
      await card.is("pending");
      await colleague.decide(asked.key, kind.other);
      await card.is("decided");
      await card.reads(new RegExp(`${kind.otherWord} by Grace`, "i"));
      if (kind.request.kind === "form") await card.reads(/"env":\s*"production"/, /"replicas":\s*3/);
      await card.isOver();
      await check("decided");
    });

    await test.step("expired: nobody decided, nothing was denied", async () => {
      const asked = await ask({ expires_in: "4s" });
      card = await app.open(asked);
      await card.is("expired");
      await card.reads(kind.expired);
      await card.isOver();
      expect((await asked.answer()).outcome).toBe("expired");
      await check("expired");
    });

    await test.step("withdrawn by the agent", async () => {
      const asked = await ask();
      card = await app.open(asked);
      await card.is("pending");
      asked.withdraw();
      await card.is("withdrawn");
      await card.reads("Withdrawn by the agent");
      await card.isOver();
      await check("withdrawn");
    });
  });
}

test("an agent that cannot be reached, in every card, and back again", async ({ app, asker }) => {
  const asked = [];
  for (const kind of kinds) asked.push({ kind, asked: await asker.ask(inSession(kind.request, SESSION)) });
  await asker.silent();
  for (const { kind, asked: a } of asked) {
    const card = await app.open(a);
    await expect(card.root).toHaveAttribute("data-unreachable", "true", { timeout: 60_000 });
    await card.reads("The agent cannot be reached at the moment", "You can still answer");
    await card.is("pending");
    await clean(app.page, `${kind.name} unreachable`);
  }
  const last = asked.at(-1)!;
  const card = app.card(last.asked);
  await asker.beat();
  await expect(card.root).not.toHaveAttribute("data-unreachable", "true");
  await expect(card.root).not.toContainText("cannot be reached");
});

test.describe("an agent that is gone", () => {
  test.use({ flags: ["--orphan-after", "15s"] });

  test("every card ends without a decision B-48 D1-16", async ({ app, asker }) => {
    const asked = [];
    for (const kind of kinds) asked.push({ kind, asked: await asker.ask(inSession(kind.request, SESSION)) });
    await app.go("");
    await expect(app.page).toHaveTitle(`(${kinds.length}) Banksman`);
    await asker.silent();
    for (const { kind, asked: a } of asked) {
      const card = await app.open(a);
      await card.is("orphaned");
      await card.reads("the agent is gone");
      await card.isOver();
      await clean(app.page, `${kind.name} orphaned`);
    }
    await expect(app.page).toHaveTitle("Banksman");
  });
});
