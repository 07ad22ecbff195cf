// Several decide, one decision counts, and everybody is told the truth.
import { command, FEATURES, inSession, kind } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";

test("two tabs decide at once: one wins, the other reads who, when and what B-04 D1-18 D1-43 invariant1", async ({ app, product, asker }) => {
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const tabs = [app, await app.tab()];
  const cards = [];
  for (const t of tabs) cards.push(await t.open(asked));
  // Both answers are sent before either is told anything.
  product.line.hold();
  await cards[0]!.approve.click();
  await cards[1]!.deny.click();
  for (const c of cards) await c.is("sending");
  product.line.release();

  const { outcome } = await asked.answer();
  expect(["allowed", "denied"]).toContain(outcome);
  const word = outcome === "allowed" ? "Approved once" : "Denied";
  const [winner, loser] = outcome === "allowed" ? [cards[0]!, cards[1]!] : [cards[1]!, cards[0]!];
  await winner.is("confirmed");
  await winner.reads(new RegExp(`${word} by you, \\d\\d:\\d\\d, web`));
  await loser.is("lost");
  const { name } = (await product.interaction(asked.key)).decision!.principal;
  await loser.reads(new RegExp(`${name} was first: ${word.toLowerCase()}, \\d\\d:\\d\\d, web`));
  for (const c of cards) await c.isOver();
  const list = await product.call<{ interactions: unknown[] }>("GET", "/api/interactions?state=closed");
  expect(list.body.interactions).toHaveLength(1);
});

test("who loses a race keeps what was written, also after a reload B-17 B-25 D0-37", async ({ app, product, asker }) => {
  const { request } = kind("question");
  const asked = await asker.ask(inSession(request, SESSION));
  const other = await asker.ask(inSession(request, SESSION));
  const card = await app.open(asked);
  await card.option("Postgres").check();
  await card.own(FEATURES).fill("y n r e 1: single sign-on, please");
  await app.page.reload();
  await expect(card.option("Postgres")).toBeChecked();
  await expect(card.own(FEATURES)).toHaveValue("y n r e 1: single sign-on, please");
  // Another request of the same text has a draft of its own.
  const second = await app.open(other);
  await expect(second.own(FEATURES)).toHaveValue("");
  await expect(second.option("Postgres")).not.toBeChecked();

  await app.open(asked);
  const colleague = await product.colleague("Grace");
  product.line.hold();
  await colleague.decide(asked.key, { answers: { db: "SQLite", features: ["Login"] } });
  await card.submit.click();
  await card.is("sending");
  product.line.release();
  await card.is("lost");
  await card.reads("Grace was first: answered", "SQLite", "was not sent");
  await expect(card.unsent).toContainText("single sign-on, please");
  await app.page.reload();
  await expect(card.unsent).toContainText("single sign-on, please");
  await card.root.getByRole("button", { name: "Discard it" }).click();
  await expect(card.unsent).toHaveCount(0);
  await app.page.reload();
  await card.reads("SQLite");
  await expect(card.unsent).toHaveCount(0);
  expect((await asked.answer()).outcome).toBe("answered");
});

test("what expires under one's fingers is over, and the text stays B-17 B-23 B-32", async ({ app, asker }) => {
  const asked = await asker.ask(inSession(kind("question").request, SESSION, { expires_in: "6s" }));
  const card = await app.open(asked);
  await card.own(FEATURES).fill("a long thought");
  await card.is("expired");
  await card.reads("Expired, nobody answered");
  await expect(card.root).not.toContainText(/denied/i);
  await expect(card.unsent).toContainText("a long thought");
  await card.isOver();
  await app.page.reload();
  await card.reads("Expired, nobody answered");
  await card.isOver();
});

test("somebody at a terminal is first D1-43", async ({ app, product }) => {
  const agent = product.command("ask", "--tool", "Bash", "--input", '{"command":"make deploy"}', "--title", "Deploy");
  await agent.line(/Waiting for a decision/);
  const login = product.command("login", "--cli");
  const code = (await login.line(/^([A-Z0-9]{4}-?[A-Z0-9]{4})$/))[1]!;
  const dialog = app.page.getByRole("dialog", { name: "A terminal asks to sign in as you" });
  await expect(dialog).toContainText(code);
  await dialog.getByRole("button", { name: "The codes match, allow" }).click();
  expect(await login.exit).toBe(0);
  const { body } = await product.call<{ interactions: { request_id: string }[] }>("GET", "/api/interactions");
  const card = app.card({ id: body.interactions[0]!.request_id });
  await card.is("pending");
  expect(await product.command("decide", body.interactions[0]!.request_id, "deny", "--message", "not on a Friday").exit).toBe(0);
  await card.reads(/Denied by .*terminal/, "not on a Friday");
  await card.isOver();
  expect(await agent.exit).toBe(1);
});
