// The page as an app: it opens offline, keeps nothing of what people decide, and
// says who is signed in.
import { clean } from "./support/axe.ts";
import { command, inSession } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";

test("the app opens without a line, says so, decides nothing, and keeps no data of the server B-18", async ({ app, product, asker }) => {
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  await app.card(asked).is("pending");
  const { page } = app;
  await page.evaluate(async () => {
    await navigator.serviceWorker.ready;
    if (!navigator.serviceWorker.controller) await new Promise((done) => navigator.serviceWorker.addEventListener("controllerchange", done, { once: true }));
  });
  await page.reload();
  await app.card(asked).is("pending");
  const kept = await page.evaluate(async () => {
    const urls: string[] = [];
    for (const name of await caches.keys()) urls.push(...(await (await caches.open(name)).keys()).map((r) => new URL(r.url).pathname));
    return urls;
  });
  expect(kept.length).toBeGreaterThan(0);
  expect(kept.filter((u) => u.startsWith("/api"))).toEqual([]);
  const manifest = await page.evaluate(async () => (await (await fetch(document.querySelector<HTMLLinkElement>('link[rel="manifest"]')!.href)).json()) as { icons: { sizes: string; purpose?: string }[]; display: string });
  expect(manifest.display).toBe("standalone");
  for (const size of ["192x192", "512x512"]) expect(manifest.icons.some((i) => i.sizes === size)).toBe(true);
  expect(manifest.icons.some((i) => i.purpose?.includes("maskable"))).toBe(true);

  product.line.cut();
  await page.reload();
  await expect(app.connection).toContainText(/Connection lost|Connecting/);
  await expect(page.getByText(/Nothing waits/)).toHaveCount(0);
  await expect(app.cards()).toHaveCount(0);
  await clean(page, "offline", { pictures: true });
  product.line.mend();
  await expect(app.connection).toHaveText(/^Connected/);
  await app.card(asked).is("pending");
  await app.card(asked).approve.click();
  await app.card(asked).is("confirmed");
});

test("decisions are found again by their words, outcome and who made them", async ({ app, product, asker }) => {
  const { page } = app;
  const colleague = await product.colleague("Grace");
  const words = ["alpha", "beta", "gamma"];
  for (const [i, w] of words.entries()) {
    const asked = await asker.ask(inSession(command(w), SESSION));
    await colleague.decide(asked.key, i === 1 ? { decision: "deny", message: "never on Fridays" } : { decision: "allow" });
    await asked.answer();
  }
  const open = await asker.ask(inSession(command("delta"), SESSION));
  await app.go("history");
  const list = page.getByTestId("history");
  for (const w of words) await expect(list).toContainText(`make ${w}`);
  await expect(list).not.toContainText("make delta");
  await page.getByRole("searchbox").fill("Fridays");
  await page.getByRole("button", { name: "Search" }).click();
  await expect(list).not.toContainText("make alpha");
  await expect(list).toContainText("make beta");
  await expect(list).toContainText(/Denied by Grace/);
  await clean(page, "history found", { pictures: true });
  await page.getByRole("searchbox").fill("nothing-of-that-kind");
  await page.getByRole("button", { name: "Search" }).click();
  await expect(list).toContainText("No decision matches");
  await page.getByRole("button", { name: "Clear" }).click();
  await page.getByText("Filters", { exact: true }).click();
  await page.getByRole("combobox", { name: "Outcome" }).selectOption("allowed");
  await expect(list).toContainText("make gamma");
  await expect(list).not.toContainText("make beta");
  await page.getByRole("link", { name: "Open it", exact: true }).first().click();
  await expect(page).toHaveURL(/#\/i\//);
  await expect(app.cards()).toHaveCount(1);
  expect(open.answered()).toBe(false);
});

test("settings: who is signed in and may do what, people and tokens, what this browser does", async ({ app }) => {
  const { page } = app;
  await app.go("settings");
  const settings = page.getByTestId("settings");
  await expect(settings).toContainText("a link from the terminal");
  await expect(settings).toContainText("admin of everything");
  await clean(page, "settings", { pictures: true });
  await page.getByRole("region", { name: "This browser" }).getByRole("combobox", { name: "Colours" }).selectOption("dark");
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  await page.reload();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  // A token of a program is made, shown once, and revoked.
  const tokens = page.getByRole("region", { name: "Tokens of programs" });
  await tokens.getByRole("textbox", { name: "What it is for" }).fill("deploy-bot");
  await tokens.getByRole("button", { name: "Make a token" }).click();
  await expect(tokens).toContainText(/shown this once/);
  await expect(tokens).toContainText(/banksman_[A-Za-z0-9_-]{20,}/);
  await clean(page, "settings token");
});
