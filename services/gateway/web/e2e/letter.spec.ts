// The page that the link of a message leads to, in a browser that nobody signed in with:
// every state of it without a fault that axe finds, and whole on a phone.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { clean, looks } from "./support/axe.ts";
import { Receiver } from "./support/messages.ts";
import { command, inSession, kind } from "./support/requests.ts";
import { expect, SESSION, test as base } from "./support/test.ts";

const test = base.extend<{ receiver: Receiver }>({
  receiver: async ({}, use) => {
    const r = await Receiver.start();
    await use(r);
    await r.end();
  },
  flags: async ({ receiver }, use) => {
    const dir = mkdtempSync(join(tmpdir(), "banksman-link-"));
    writeFileSync(join(dir, "notify.yaml"), receiver.config(), { mode: 0o600 });
    await use(["--notify", join(dir, "notify.yaml")]);
    rmSync(dir, { recursive: true });
  },
});

/** axe, and on a phone: nothing goes on sideways, what is pressed is 44 px high, and text is of a size that is read. */
async function good(page: Page, what: string): Promise<void> {
  await clean(page, `link page ${what}`, { pictures: true });
  const phone = looks.find((l) => l.name === "phone-light")!;
  await page.setViewportSize(phone.size);
  const found = await page.evaluate(() => {
    const wrong: string[] = [];
    const html = document.documentElement;
    if (html.scrollWidth > html.clientWidth) wrong.push(`the page is ${html.scrollWidth} wide`);
    for (const e of document.body.querySelectorAll<HTMLElement>("*")) {
      const box = e.getBoundingClientRect();
      const name = `${e.tagName.toLowerCase()} ${(e.textContent ?? "").trim().slice(0, 30)}`;
      if (e.matches("a, button, input:not([type=hidden]), textarea") && box.height < 44) wrong.push(`${name} is ${box.height} high`);
      if (box.width > 0 && (box.left < 0 || box.right > html.clientWidth)) wrong.push(`${name} is from ${box.left} to ${box.right}`);
      if (box.height > 0 && parseFloat(getComputedStyle(e).fontSize) < 13) wrong.push(`${name} is small`);
      if (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== "visible") wrong.push(`${name} is cut off`);
    }
    return wrong;
  });
  expect.soft(found, what).toEqual([]);
  await page.setViewportSize(looks[0].size);
}

test("the page of a link, in every state: axe finds nothing, and a phone shows it whole B-62", async ({ page, asker, receiver, product }) => {
  const open = async (key: string): Promise<void> => void (await page.goto(await receiver.link(key)));

  await test.step("what a link is enough for", async () => {
    const asked = await asker.ask(inSession(command("test", { reason: "The tests have to pass before the release." }), SESSION));
    await open(asked.key);
    await expect(page.locator("h1")).toContainText("make test");
    await good(page, "waits");
    await page.getByLabel(/^Type/).fill("perhaps");
    await page.getByRole("button", { name: "Send my decision" }).click();
    await expect(page.getByRole("alert")).toContainText("Nothing was decided");
    await good(page, "wrong word");
    await page.getByLabel(/^Type/).fill("approve");
    await page.getByRole("button", { name: "Send my decision" }).click();
    await expect(page.locator("#outcome")).toContainText("Approved by");
    expect((await asked.answer()).outcome).toBe("allowed");
    await good(page, "decided");
  });

  await test.step("a long command of high risk, with text from right to left and what is pushed out of sight", async () => {
    const long = `cd /srv/shop && ${"tar --exclude=node_modules -czf /srv/backup/shop-full.tar.gz . && ".repeat(6)}echo 'שלום עולם' ${"x".repeat(300)}${" ".repeat(200)}; rm -rf /srv/production`;
    const asked = await asker.ask(inSession(command("long", { message: "יש למחוק את התיקייה הישנה לפני הפריסה", tool: { name: "Bash", input: { command: long }, cwd: `/srv/${"deep/".repeat(30)}` } }), SESSION));
    await open(asked.key);
    await expect(page.locator("pre.payload").first()).toContainText("rm -rf /srv/production");
    await expect(page.locator("#review-why")).toBeVisible();
    await good(page, "high risk");
    asked.withdraw();
    await asked.answer();
    await page.reload();
    await expect(page.locator("#outcome")).toContainText("Withdrawn");
    await good(page, "withdrawn");
  });

  await test.step("a change of a file", async () => {
    const asked = await asker.ask(inSession(kind("Edit").request, SESSION));
    await open(asked.key);
    await expect(page.locator("pre.old")).toContainText("retries: 3");
    await good(page, "edit");
  });

  await test.step("a link that nobody knows", async () => {
    await page.goto(`${product.url}/l/ticket_nobody`);
    await expect(page.getByRole("alert")).toContainText("unknown");
    await good(page, "unknown");
  });
});
