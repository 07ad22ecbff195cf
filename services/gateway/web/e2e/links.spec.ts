// An MCP server wants a person to open a web page: nothing opens by itself, the host
// is spelled out, and what a browser reads in another way than people leads nowhere.
import { clean } from "./support/axe.ts";
import { inSession, kind, LINK } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";
import type { Request } from "./support/asker.ts";

const linkTo = (url: unknown): Request => {
  const { request } = kind("link of an MCP server");
  return { ...request, tool: { ...request.tool!, input: { url } } };
};

test("a page opens when a person presses it, once, without a trace of this one, and tells the agent nothing B-54 D0-42 invariant10", async ({ app, asker }) => {
  const { page } = app;
  const context = page.context();
  const asked: string[] = [];
  await context.route("https://tickets.example/**", async (route) => {
    asked.push(`${route.request().url()} ${route.request().headers().referer ?? "no referrer"}`);
    await route.fulfill({ contentType: "text/html", body: "<title>tickets</title><p id=o></p><script>document.getElementById('o').textContent = String(window.opener)</script>" });
  });
  const link = await asker.ask(inSession(linkTo(LINK), SESSION));
  const card = await app.open(link);
  await card.isWhole();
  await card.seeAll();
  const anchor = card.root.getByTestId("open-link");
  await expect(anchor).toHaveAttribute("href", LINK);
  for (const key of ["o", "Enter", "1"]) await page.keyboard.press(key);
  await card.root.getByText(LINK).click();
  expect(context.pages()).toHaveLength(1);
  expect(asked).toEqual([]);
  const [opened] = await Promise.all([context.waitForEvent("page"), anchor.click()]);
  await expect(opened.locator("#o")).toHaveText("null");
  expect(asked).toEqual([`${LINK} no referrer`]);
  await opened.close();
  await card.is("pending");
  expect(link.answered()).toBe(false);
  await expect(card.always).toHaveCount(0);
  await expect(card.edit).toHaveCount(0);
  await card.approve.click();
  await card.is("confirmed");
  await expect(anchor).toHaveCount(0);
  expect((await link.answer()).outcome).toBe("allowed");
  expect(context.pages()).toHaveLength(1);
});

test("a host that looks like another one is spelled out, and what is no web address leads nowhere B-54 D0-42 invariant10", async ({ app, asker }) => {
  const cases: [url: unknown, reads: (string | RegExp)[], leads: boolean][] = [
    ["https://g\u0456thub.com/login", ["g⟦U+0456⟧thub.com", /High risk/, "can look like others"], true],
    ["https://xn--gthub-n4a.com/login", ["xn--gthub-n4a.com", /High risk/, "may show as another name"], true],
    ["http://127.0.0.1:9/reset", ["127.0.0.1:9", /High risk/, "this machine or its network"], true],
    ["https://github.com@evil.example/", [/High risk/, "hides its host"], false],
    ["https://exa\u200bmple.com/\u202egpj", ["⟦U+200B⟧", "⟦U+202E⟧", /High risk/], false],
    ["javascript:alert(document.cookie)", ["javascript:alert(document.cookie)", /High risk/], false],
    ["data:text/html,<script>alert(1)</script>", [/High risk/], false],
    [["https://tickets.example/"], [/High risk/, "brings no address"], false],
  ];
  for (const [url, reads, leads] of cases) {
    await test.step(JSON.stringify(url), async () => {
      const card = await app.open(await asker.ask(inSession(linkTo(url), SESSION)));
      await card.isWhole();
      await card.reads(...reads);
      await expect(card.root.getByTestId("open-link")).toHaveCount(leads ? 1 : 0);
      await expect(card.root.locator('a[href^="javascript"], a[href^="data"]')).toHaveCount(0);
    });
  }
  await clean(app.page, "link that leads nowhere", { pictures: true });
  // In a row it decides nothing.
  await app.go("");
  await app.overview();
  await expect(app.page.getByRole("button", { name: /^Approve once/ })).toHaveCount(0);
  await expect(app.page.getByTestId("open-link")).toHaveCount(0);
});

test("a path of any length is drawn whole and locks nothing for good B-54 D1-34", async ({ app, asker }) => {
  const path = `/srv/${"deep/".repeat(600)}end.txt`;
  const asked = await asker.ask(inSession({ ...kind("Write").request, tool: { name: "Write", input: { file_path: path, content: "x" } } }, SESSION));
  const card = await app.open(asked);
  await card.isWhole();
  await card.reads("deep/end.txt");
  await card.seeAll();
  await card.approve.click();
  await card.is("confirmed");
  expect((await asked.answer()).outcome).toBe("allowed");
});
