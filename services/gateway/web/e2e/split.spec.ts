// Gateways die apart from the bus server: whoever is at the page goes on at another
// one, behind the same address, as if nothing had been.
import { type Page, test as base } from "@playwright/test";
import { command, FEATURES, inSession, kind } from "./support/requests.ts";
import { Team } from "./support/team.ts";
import { expect, faults, SESSION } from "./support/test.ts";
import { App } from "./support/ui.ts";
import type { Asker } from "./support/asker.ts";

const test = base.extend<{ team: Team; app: App; asker: Asker }>({
  team: async ({}, use, info) => {
    const team = await Team.start();
    await use(team);
    if (info.status !== info.expectedStatus) await info.attach("output of the product", { body: team.output(), contentType: "text/plain" });
    await team.end();
  },
  app: async ({ page, team }, use) => {
    const wrong = faults(page);
    const app = new App(page, team);
    await app.signIn();
    await use(app);
    expect(wrong).toEqual([]);
  },
  asker: async ({ team }, use) => {
    const asker = await team.asker();
    await asker.session(SESSION, "Release 2.4");
    await use(asker);
  },
});

interface Heard { hellos: { recovered: boolean }[]; snapshots: number }

/** What a page's sockets hear from now on. */
function listen(page: Page): Heard {
  const heard: Heard = { hellos: [], snapshots: 0 };
  page.on("websocket", (ws) => ws.on("framereceived", ({ payload }) => {
    const parsed = JSON.parse(String(payload)) as unknown;
    for (const f of (Array.isArray(parsed) ? parsed : [parsed]) as { type: string; recovered?: boolean }[]) {
      if (f.type === "hello") heard.hellos.push({ recovered: f.recovered === true });
      if (f.type === "active_processes") heard.snapshots++;
    }
  }));
  return heard;
}

test("the page's gateway is killed and another one answers: the cursor holds, nothing is lost, stale or decided twice B-18 B-19 B-48 B-50 D1-29 invariant1 invariant6 invariant8", async ({ app, team, asker }) => {
  const { page } = app;
  const question = await asker.ask(inSession(kind("question").request, SESSION, { expires_in: "30m" }));
  const mine = await asker.ask(inSession(command("mine"), SESSION));
  const decided = await asker.ask(inSession(command("decided"), SESSION));
  const withdrawn = await asker.ask(inSession(command("withdrawn"), SESSION));
  await expect(page).toHaveTitle("(4) Banksman");
  const card = app.card(question);
  await card.option("SQLite").check();
  await card.own(FEATURES).fill("half a thought");
  const colleague = await team.colleague("Grace");
  const before = await team.interaction(question.key);
  const heard = listen(page);

  await test.step("an answer is stored, and its gateway dies before it says so", async () => {
    team.line.hold();
    await app.card(mine).approve.click();
    await app.card(mine).is("sending");
    expect((await mine.answer()).outcome).toBe("allowed");
    await team.killGateway(0);
    team.line.cut();
    team.line.release();
    await expect(app.connection).toContainText(/Connection lost|Connecting again/);
    await card.isDead();
  });
  await test.step("meanwhile the world goes on at the other gateway", async () => {
    team.lead(1);
    await colleague.decide(decided.key, { decision: "deny" });
    withdrawn.withdraw();
  });
  const fresh = await asker.ask(inSession(command("fresh"), SESSION));
  await test.step("the page comes back to the other one, with what it missed and no snapshot", async () => {
    expect(heard.hellos).toHaveLength(0);
    team.line.mend();
    await expect(app.connection).toHaveText(/^Connected/);
    await app.card(fresh).is("pending");
    await app.card(mine).is("confirmed");
    await app.card(mine).reads("Approved once by you");
    await app.card(decided).reads("Denied by Grace");
    await app.card(withdrawn).reads("Withdrawn by the agent");
    for (const a of [mine, decided, withdrawn]) await app.card(a).isOver();
    await expect(page).toHaveTitle("(2) Banksman");
    expect(heard.hellos).toEqual([{ recovered: true }]);
    expect(heard.snapshots).toBe(0);
    await expect(card.own(FEATURES)).toHaveValue("half a thought");
    await expect(card.option("SQLite")).toBeChecked();
    expect((await team.interaction(question.key)).expires_at).toBe(before.expires_at);
  });
  await test.step("and back again, also while both were dead", async () => {
    await team.killGateway(1);
    await expect(app.connection).toContainText(/Connection lost|Connecting again/);
    await card.isDead();
    const late = await asker.ask(inSession(command("late"), SESSION));
    await team.gateway(0);
    team.lead(0);
    await expect(app.connection).toHaveText(/^Connected/);
    await app.card(late).is("pending");
    await expect(page).toHaveTitle("(3) Banksman");
    expect(heard.hellos).toEqual([{ recovered: true }, { recovered: true }]);
    expect(heard.snapshots).toBe(0);
    await expect(card.own(FEATURES)).toHaveValue("half a thought");
  });
  await test.step("each is decided once", async () => {
    await card.submit.click();
    await card.reads("Answered by you");
    expect((await question.answer()).outcome).toBe("answered");
    const closed = await team.until<{ interactions: { key: string; outcome: string }[] }>("/api/interactions?state=closed", (b) => b.interactions.length >= 4);
    const outcomes = closed.interactions.map((i) => [i.key, i.outcome]).sort();
    expect(outcomes).toEqual([[question.key, "answered"], [mine.key, "allowed"], [decided.key, "denied"], [withdrawn.key, "cancelled"]].sort());
  });
});

test("two tabs at two gateways, one of which dies: both tell the same B-50 D1-41 invariant8", async ({ app, team, asker }) => {
  // The second tab's connection leads to the other gateway.
  team.lead(1);
  const tab = await app.tab();
  const one = await asker.ask(inSession(command("one"), SESSION));
  const two = await asker.ask(inSession(command("two"), SESSION));
  for (const t of [app, tab]) for (const a of [one, two]) await t.card(a).is("pending");
  await app.card(one).deny.click();
  await tab.card(one).reads("Denied by you");
  await team.killGateway(0);
  await expect(app.connection).toHaveText(/^Connected/);
  await expect(tab.connection).toHaveText(/^Connected/);
  await tab.card(two).approve.click();
  await app.card(two).reads("Approved once by you");
  for (const t of [app, tab]) {
    await t.card(two).isOver();
    await expect(t.page).toHaveTitle("Banksman");
  }
  expect((await one.answer()).outcome).toBe("denied");
  expect((await two.answer()).outcome).toBe("allowed");
});
