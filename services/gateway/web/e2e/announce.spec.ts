// What a screen reader says, and that nothing takes the focus away.
import { command, inSession, kind } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";

test("what comes and goes is said politely, and takes no focus B-77", async ({ app, product, asker }) => {
  await expect(app.live).toHaveAttribute("aria-live", "polite");
  await expect(app.live).toHaveText(/Nothing waits for you/);
  const place = app.page.getByRole("link", { name: "Inbox" }).first();
  await place.focus();

  const first = await asker.ask(inSession(command("first"), SESSION));
  await expect(app.live).toHaveText(/^New request: Build agent /);
  const card = app.card(first);
  await card.is("pending");
  await expect(place).toBeFocused();
  await expect(app.page).toHaveTitle("(1) Banksman");
  await expect(app.page.locator('link[rel="icon"]')).toHaveAttribute("href", /dot/);

  // One's own decision: said, and the focus stays at what became of the card.
  await card.deny.click();
  await card.is("confirmed");
  await expect(app.live).toHaveText(/: denied\./);
  await expect(card.root).toBeFocused();
  await expect(app.page).toHaveTitle("Banksman");

  // Somebody else's, while one is at another card.
  const second = await asker.ask(inSession(command("second"), SESSION));
  const third = await asker.ask(inSession(kind("question").request, SESSION));
  const other = app.card(third);
  await other.option("SQLite").focus();
  const y = (await other.option("SQLite").boundingBox())!.y;
  const colleague = await product.colleague("Grace");
  await colleague.decide(second.key, { decision: "allow" });
  await expect(app.live).toHaveText(/: approved\./);
  await expect(other.option("SQLite")).toBeFocused();
  expect(y).toBeGreaterThan(0);

  // An end without anybody.
  third.withdraw();
  await expect(app.live).toHaveText(/withdrawn by the agent/);
});

test("the last of the time is said once, and not the time before it B-42", async ({ app, asker }) => {
  const said: string[] = [];
  await app.page.exposeFunction("heard", (text: string) => said.push(text.trim()));
  await app.live.evaluate((region) => {
    new MutationObserver(() => (window as unknown as { heard: (t: string) => void }).heard(region.textContent ?? "")).observe(region, { childList: true, characterData: true, subtree: true });
  });
  const asked = await asker.ask(inSession(command("deploy"), SESSION, { expires_in: "24s" }));
  const card = app.card(asked);
  await card.is("pending");
  await card.reads(/\d+ s left/);
  await expect(app.live).toHaveText(/^20 seconds left: Build agent /);
  await card.is("expired");
  await expect(app.live).toHaveText(/expired, nobody answered/);
  expect(said.filter((s) => s.includes(" left: "))).toHaveLength(1);
});
