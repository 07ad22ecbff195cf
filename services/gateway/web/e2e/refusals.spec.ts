// The server does not take an answer: the card says why and what to do, what was
// written stays, and the card goes on.
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test as base } from "@playwright/test";
import { clean } from "./support/axe.ts";
import { authenticator } from "./support/passkey.ts";
import { command, FEATURES, inSession, kind } from "./support/requests.ts";
import { Team } from "./support/team.ts";
import { expect, faults, SESSION, test } from "./support/test.ts";
import { App } from "./support/ui.ts";
import type { Request } from "./support/asker.ts";

/** Critical: it touches the instance's own data. */
const critical = (more: Partial<Request> = {}): Request => command("x", { tool: { name: "Bash", input: { command: "banksman decide 1 allow" } }, title: "Decide", ...more });

const why = "half a thought: \u00e9 1 y n";

/** A program that may decide everything, and is whose owner's requests it must not decide. */
async function token(product: { call: App["product"]["call"] }, more: Record<string, unknown>): Promise<string> {
  const r = await product.call<{ token: string }>("POST", "/api/tokens", { name: "Robot", roles: [{ role: "admin", projects: ["*"] }], expires_in: 3600, ...more });
  expect(r.status, JSON.stringify(r.body)).toBe(200);
  return r.body.token;
}

test("forbidden: whoever asked does not decide, and what was written is still there when somebody else did B-30 B-56 invariant2 invariant6", async ({ page, product, asker }) => {
  const colleague = await product.colleague("Grace");
  const approval = await asker.ask(inSession(command("deploy"), SESSION));
  const question = await asker.ask(inSession(kind("question").request, SESSION));
  const app = new App(page, product);
  await app.signInWith(await token(product, { owner: "agents" }));
  let card = await app.open(approval);
  await card.isWhole();
  await card.approve.click();
  await card.is("refused");
  await card.reads("an owner cannot decide its own request", "It waits for somebody else");
  await card.denyWithReason.click();
  await card.reason.fill(why);
  await card.sendReason.click();
  await card.is("refused");
  await expect(card.reason).toHaveValue(why);
  await expect(card.sendReason).toBeEnabled();
  await clean(page, "refused forbidden", { pictures: true });
  await page.reload();
  await card.is("pending");
  await expect(card.reason).toHaveValue(why);
  expect(approval.answered()).toBe(false);
  await colleague.decide(approval.key, { decision: "allow" });
  await card.is("decided");
  await card.reads("Approved once by Grace");
  await expect(card.unsent).toContainText(why);
  expect((await approval.answer()).outcome).toBe("allowed");

  card = await app.open(question);
  await card.option("SQLite").check();
  await card.own(FEATURES).fill(why);
  await card.submit.click();
  await card.is("refused");
  await card.reads("It waits for somebody else");
  await expect(card.own(FEATURES)).toHaveValue(why);
  await expect(card.option("SQLite")).toBeChecked();
  await colleague.decide(question.key, kind("question").other);
  await card.is("decided");
  await card.reads("Answered by Grace");
  await expect(card.unsent).toContainText(why);
});

test("forbidden: a program lets nothing critical go on, and may still say no B-30 B-56 invariant6", async ({ page, product, asker }) => {
  const asked = await asker.ask(inSession(critical(), SESSION));
  const app = new App(page, product);
  await app.signInWith(await token(product, {}));
  const card = await app.open(asked);
  await card.isWhole();
  await card.seeAll();
  await card.approve.click();
  await card.is("refused");
  await card.reads("only a person may do this");
  await expect(card.root.getByTestId("proof")).toHaveCount(0);
  await card.denyWithReason.click();
  await card.reason.fill(why);
  await card.sendReason.click();
  await card.reads("Denied by you", why);
  expect((await asked.answer()).outcome).toBe("denied");
});

const team = base.extend<{ team: Team }>({
  team: async ({}, use, info) => {
    const t = await Team.start({ name: "localhost" });
    await use(t);
    if (info.status !== info.expectedStatus) await info.attach("output of the product", { body: t.output(), contentType: "text/plain" });
    await t.end();
  },
});

team("unavailable: while the bus server is gone nothing can be stored, and once it is back the same answer counts once B-30 B-31 invariant4 invariant6 invariant7", async ({ page, team }) => {
  const wrong = faults(page);
  const app = new App(page, team);
  await app.signIn();
  const asker = await team.asker();
  await asker.session(SESSION, "Release 2.4");
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const other = await asker.ask(inSession(kind("question").request, SESSION));
  let card = await app.open(asked);
  await card.isWhole();
  await card.denyWithReason.click();
  await card.reason.fill(why);
  await team.killBus();
  await card.sendReason.click();
  await expect(card.root).toContainText("The server could not store it", { timeout: 60_000 });
  await card.is("unsure");
  await card.reads("it counts only once");
  await expect(card.reason).toHaveValue(why);
  await expect(card.sendReason).toBeEnabled();
  await clean(page, "unavailable", { pictures: true });
  card = await app.open(other);
  await card.option("SQLite").check();
  await card.own(FEATURES).fill(why);
  await card.submit.click();
  await expect(card.root).toContainText("The server could not store it", { timeout: 60_000 });
  await expect(card.own(FEATURES)).toHaveValue(why);
  expect(asked.answered() || other.answered()).toBe(false);

  await team.bus();
  await team.until("/readyz", () => true);
  await card.submit.click();
  await card.reads("Answered by you", why);
  card = await app.open(asked);
  await expect(card.reason).toHaveValue(why);
  await card.sendReason.click();
  await card.reads("Denied by you", why);
  expect((await asked.answer()).message).toContain(why);
  expect((await other.answer()).outcome).toBe("answered");
  expect(wrong).toEqual([]);
});

team("forbidden: whose role was made smaller while they wrote signs in again, may look, and has what they wrote B-30 B-56 invariant6", async ({ page, team }) => {
  const asker = await team.asker();
  await asker.session(SESSION, "Release 2.4");
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const roles = (role: string) => ({ roles: [{ role, projects: ["*"] }] });
  expect((await team.call("POST", "/api/users", { id: "ada", name: "Ada", ...roles("approver") })).status).toBe(200);
  const invitation = await team.call<{ url: string }>("POST", "/api/users/ada/invite");
  expect(invitation.status, JSON.stringify(invitation.body)).toBe(200);
  await authenticator(page);
  await page.goto(invitation.body.url);
  await page.getByRole("button", { name: "Register a passkey" }).click();
  const app = new App(page, team);
  await expect(app.connection).toHaveText(/Connected/);
  const card = await app.open(asked);
  await card.isWhole();
  await card.denyWithReason.click();
  await card.reason.fill(why);
  expect((await team.call("POST", "/api/users/ada", roles("viewer"))).status).toBe(200);
  await expect(page.getByTestId("login-needed")).toBeVisible();
  await page.getByRole("link", { name: /sign in with a passkey/ }).click();
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await expect(card.root).toContainText("your role does not reach it");
  await card.isOver();
  await expect(card.unsent).toContainText(why);
  expect(asked.answered()).toBe(false);
});

team("step-up: what is critical takes a passkey, the card leads there and back, and what was written is there B-56 invariant6", async ({ page, team }) => {
  await authenticator(page);
  const app = new App(page, team);
  await app.signIn();
  const asker = await team.asker();
  await asker.session(SESSION, "Release 2.4");
  const asked = await asker.ask(inSession(critical(), SESSION));
  await test.step("a passkey, which its owner used long ago", async () => {
    await page.goto(`${team.url}/signin.html#passkey`);
    await page.getByRole("button", { name: "Add a passkey" }).click();
    await expect(page.getByRole("heading", { name: "Added" })).toBeVisible();
    // A session that came by a link has not used it at all.
    await page.evaluate(() => localStorage.removeItem("banksman.session"));
    await page.goto(await team.linkOf(1));
    await expect(app.connection).toHaveText(/Connected/);
  });
  const card = await app.open(asked);
  await card.isWhole();
  await card.seeAll();
  await card.edit.click();
  const edited = '{"command":"banksman decide 1 deny"}';
  await card.editText.fill(edited);
  await card.approveEdited.click();
  await card.is("refused");
  await card.reads("Not sent yet: a request of critical risk takes your passkey", "What you wrote is kept");
  await clean(page, "refused step up", { pictures: true });
  expect(asked.answered()).toBe(false);
  await card.root.getByRole("link", { name: "Confirm with your passkey" }).click();
  await page.getByRole("button", { name: "Use my passkey" }).click();
  await page.getByRole("link", { name: "Back to the request" }).click();
  await card.is("pending");
  await expect(card.editText).toHaveValue(edited);
  await card.seeAll();
  await card.approveEdited.click();
  await card.is("confirmed");
  expect(await asked.answer()).toMatchObject({ outcome: "allowed", input: edited });
});

test("a server that got an older backup: what it lost is gone, and what was asked anew under the same name is shown anew B-30 B-36 B-55 invariant5 invariant6", async ({ app, product }) => {
  const { page } = app;
  // Before anything was asked, and with the session of this browser.
  const store = join(product.data, "nats");
  const backup = join(product.home, "backup");
  await product.kill();
  cpSync(store, backup, { recursive: true });
  await product.again();
  await expect(app.connection).toHaveText(/^Connected/);
  const asker = await product.asker();
  await asker.session(SESSION, "Release 2.4");
  const lost = await asker.ask(inSession(command("lost"), SESSION));
  const ask = (what: string) => product.command("ask", "--tool", "Bash", "--input", JSON.stringify({ command: `make ${what}` }), "--title", "Deploy", "--key", "deploy-1", "--timeout", "30m");
  const first = ask("deploy");
  await first.line(/Waiting for a decision/);
  await app.wholeCards();
  const gone = app.card(lost);
  await gone.isWhole();
  await gone.denyWithReason.click();
  await gone.reason.fill(why);
  const { body } = await product.call<{ interactions: { request_id: string; tool_name: string; session_id: string }[] }>("GET", "/api/interactions");
  const again = app.card({ id: body.interactions.find((i) => i.request_id !== lost.id)!.request_id });
  await again.isWhole();

  await page.clock.install();
  await page.reload();
  await expect(gone.reason).toHaveValue(why);
  await again.isWhole();

  // Both answers are on the way when the server dies; whoever asked is dead too.
  product.line.hold("up");
  await gone.sendReason.click();
  await gone.is("sending");
  await again.approve.click();
  await again.is("sending");
  // An answer is said again for five seconds; the page is asleep until the server is back.
  await page.clock.pauseAt(Date.now() + 500);
  await asker.kill();
  await first.kill();
  await product.kill();
  product.line.cut();
  product.line.release();
  rmSync(store, { recursive: true });
  cpSync(backup, store, { recursive: true });
  await product.again();
  const second = ask("undeploy");
  await second.line(/Waiting for a decision/);
  product.line.mend();
  await page.clock.resume();
  await expect(app.connection).toHaveText(/^Connected/);

  await again.is("refused");
  await again.reads("make undeploy", "It is shown anew; look at it again");
  await expect(again.root).not.toContainText("make deploy");
  await gone.is("gone");
  await gone.reads(/the server does not know this request any more/);
  await gone.isOver();
  await expect(gone.unsent).toContainText(why);
  await clean(page, "refused other digest and gone", { pictures: true });
  await page.reload();
  await again.is("pending");
  await again.approve.click();
  await again.is("confirmed");
  expect(await second.exit).toBe(0);
});
