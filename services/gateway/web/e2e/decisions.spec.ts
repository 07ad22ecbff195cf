// A long list of decisions, also the part of it that is not on the screen.
import { clean } from "./support/axe.ts";
import { command, inSession, kind } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";

test("a long list of decisions has no violation, at its top and at its end", async ({ app, product, asker }) => {
  const { page } = app;
  const grace = await product.colleague("Grace");
  const says = [{ decision: "deny", message: "not on a Friday" }, { decision: "allow" }];
  const asked = await Promise.all(Array.from({ length: 60 }, (_, i) => asker.ask(inSession(command(`target-${i}`), SESSION))));
  for (const [i, a] of asked.entries()) await grace.decide(a.key, says[i % 2]!);
  const brief = await asker.ask(inSession({ ...kind("question").request, expires_in: "1s" }, SESSION));
  const gone = await asker.ask(inSession(kind("form").request, SESSION));
  gone.withdraw();
  await brief.answer();
  await app.go("history");
  const list = page.getByTestId("history").getByRole("listitem").filter({ has: page.locator('[data-testid^="receipt-"]') });
  await expect(list).toHaveCount(50);
  await expect(page.getByTestId("history")).toContainText("Withdrawn by the agent");
  await page.getByText("what was asked").first().click();
  await clean(page, "many decisions");
  await page.getByTestId("history-more").click();
  await expect(list).toHaveCount(62);
  await list.last().scrollIntoViewIfNeeded();
  await clean(page, "many decisions, the end");
});
