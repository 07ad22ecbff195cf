// The line breaks, the gateway dies, and both come back: nothing is lost,
// nothing is stale, and nobody can decide meanwhile.
import { clean } from "./support/axe.ts";
import { command, FEATURES, inSession, kind } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";

test("the line is cut and comes back B-18 B-20 D1-29 invariant8", async ({ app, product, asker }) => {
  const stays = await asker.ask(inSession(command("stays", { expires_in: "30m" }), SESSION));
  const decided = await asker.ask(inSession(command("decided"), SESSION));
  const withdrawn = await asker.ask(inSession(command("withdrawn"), SESSION));
  const colleague = await product.colleague("Grace");
  await expect(app.cards()).toHaveCount(3);
  const card = app.card(stays);
  await card.denyWithReason.click();
  await card.reason.fill("half a thought");

  product.line.cut();
  await expect(app.connection).toContainText(/Connection lost|Connecting again/);
  await expect(app.connection).toContainText(/Decisions are off|again/);
  for (const a of [stays, decided, withdrawn]) {
    await app.card(a).isDead();
    await app.card(a).reads("No connection to the server");
  }
  await expect(card.reason).toHaveValue("half a thought");
  await card.reason.fill("a whole thought");
  await clean(app.page, "connection lost", { pictures: true });
  // Meanwhile the world goes on.
  await colleague.decide(decided.key, { decision: "deny" });
  withdrawn.withdraw();
  const fresh = await asker.ask(inSession(command("fresh"), SESSION));

  product.line.mend();
  await expect(app.connection).toHaveText(/^Connected/);
  await app.card(fresh).is("pending");
  await expect(app.card(stays).root).toHaveCount(1);
  await expect(app.page).toHaveTitle("(2) Banksman");
  for (const a of [decided, withdrawn]) await app.card(a).isOver();
  await expect(card.reason).toHaveValue("a whole thought");
  await card.reads(/(29|30) min left/);
  expect(decided.answered() && withdrawn.answered()).toBe(true);
  expect(stays.answered() || fresh.answered()).toBe(false);
  await card.sendReason.click();
  await card.reads("Denied by you", "a whole thought");
  expect((await stays.answer()).message).toContain("a whole thought");
});

test("an answer on a line that breaks is not lost and counts once B-31 invariant6", async ({ app, product, asker }) => {
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const card = await app.open(asked);
  product.line.hold("up");
  await card.approve.click();
  await card.is("sending");
  product.line.cut();
  product.line.release();
  await card.isDead();
  expect(asked.answered()).toBe(false);
  product.line.mend();
  // It is said again by itself; nobody has to press twice.
  await card.is("confirmed");
  expect((await asked.answer()).outcome).toBe("allowed");
});

test("the browser is offline: nothing can be sent, and it comes back by itself B-31", async ({ app, asker }) => {
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const card = await app.open(asked);
  const net = await app.page.context().newCDPSession(app.page);
  await net.send("Network.enable");
  const offline = (on: boolean) => net.send("Network.emulateNetworkConditions", { offline: on, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  await offline(true);
  app.product.line.cut(); // DevTools leaves open sockets alone
  await expect(app.connection).toContainText(/Connection lost|Connecting again/);
  await card.isDead();
  app.product.line.mend();
  await card.isDead();
  await offline(false);
  await expect(app.connection).toHaveText(/^Connected/);
  await card.approve.click();
  await card.is("confirmed");
  expect((await asked.answer()).outcome).toBe("allowed");
});

test("a line that is open and says nothing any more is given up B-27", async ({ app, product, asker }) => {
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  await app.page.clock.install();
  await app.page.reload();
  const card = app.card(asked);
  await card.is("pending");
  await expect(app.connection).toHaveText(/^Connected/);
  // As on a phone whose screen was off: no end of the line was heard.
  product.line.hold("up");
  product.line.hold("down");
  const later = asker.ask(inSession(command("later"), SESSION));
  await app.page.clock.fastForward("02:00");
  await expect(app.connection).toContainText(/Connection lost|Connecting again/);
  await card.isDead();
  product.line.release();
  await expect(app.connection).toHaveText(/^Connected/);
  await app.card(await later).is("pending");
  await expect(app.cards()).toHaveCount(2);
});

test("everything is killed and comes back B-18 B-20 B-48 D1-28 D1-29 invariant3", async ({ app, product, asker }) => {
  const { request } = kind("question");
  const asked = await asker.ask(inSession(request, SESSION, { expires_in: "30m" }));
  const forTheTerminal = product.command("ask", "--tool", "Bash", "--input", '{"command":"make deploy"}', "--title", "Deploy", "--timeout", "30m", "--key", "deploy-1");
  await forTheTerminal.line(/Waiting for a decision/);
  await expect(app.cards()).toHaveCount(2);
  const before = await product.interaction(asked.key);
  const card = app.card(asked);
  await card.option("SQLite").check();
  await card.own(FEATURES).fill("half a thought");
  const tab = await app.tab();

  await product.kill();
  for (const t of [app, tab]) {
    await expect(t.connection).toContainText(/Connection lost|Connecting again/);
    for (const b of await t.cards().getByRole("button", { name: /^(Approve|Deny|Submit)/ }).all()) await expect(b).toBeDisabled();
  }
  await product.again();
  for (const t of [app, tab]) {
    await expect(t.connection).toHaveText(/^Connected/);
    await expect(t.cards()).toHaveCount(2);
    await expect(t.page).toHaveTitle("(2) Banksman");
  }
  expect((await product.interaction(asked.key)).expires_at).toBe(before.expires_at);
  await card.reads(/(29|30) min left/);
  await expect(card.own(FEATURES)).toHaveValue("half a thought");
  await expect(card.option("SQLite")).toBeChecked();
  await card.submit.click();
  await card.reads("Answered by you");
  await tab.card(asked).reads("Answered by you");
  expect((await asked.answer()).outcome).toBe("answered");
  const other = tab.cards().filter({ hasText: "make deploy" });
  await other.getByRole("button", { name: /^Approve once/ }).click();
  expect(await forTheTerminal.exit).toBe(0);
});

test("until the server has said what waits, the page says nothing of it", async ({ app, asker }) => {
  await asker.ask(inSession(command("deploy"), SESSION));
  await expect(app.cards()).toHaveCount(1);
  // The page comes, the socket gets no word.
  await app.page.routeWebSocket(/\/api\/ws/, () => undefined);
  await app.page.reload();
  await expect(app.inbox).toContainText("Asking the server what waits");
  await expect(app.page.getByText(/Nothing waits|requests? waits? for you/)).toHaveCount(0);
  await clean(app.page, "loading");
});
