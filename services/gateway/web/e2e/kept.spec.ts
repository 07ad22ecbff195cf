// A session on a phone: the conversation and what waits share the screen, and what is
// written with the files beside it outlives a reload.
import type { Page } from "@playwright/test";
import { expect, test } from "./support/test.ts";

const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
test.use({ viewport: { width: 390, height: 844 } });

test("on a phone the request is a sheet over its conversation, and files beside a message survive a reload B-54 D0-37", async ({ app, product }) => {
  const { page } = app;
  const { body } = await product.call<{ session_id: string }>("POST", "/api/demo", {});
  await app.go(`s/${body.session_id}`);
  const log = page.getByRole("log", { name: "Conversation" });
  const card = page.locator("article[data-card]").first();
  const lower = page.getByRole("button", { name: "Read the conversation" });
  const raise = page.getByRole("button", { name: /^Look at/ });
  await test.step("pulled down it is a line, and nothing decides", async () => {
    await expect(card).toBeVisible();
    const strip = (await log.boundingBox())!.height;
    await lower.click();
    await expect(card).toBeHidden();
    await expect(page.getByTestId("dock")).toContainText(/wants to|asks/);
    await expect(page.getByRole("button", { name: /^(Approve|Deny)/ })).toHaveCount(0);
    const read = (await log.boundingBox())!.height;
    expect(read, `${strip} px before`).toBeGreaterThan(Math.max(strip, 400));
    expect((await raise.boundingBox())!.height).toBeGreaterThanOrEqual(44);
  });
  await test.step("pulled up it decides as ever", async () => {
    await raise.click();
    await expect(card).toBeVisible();
    await card.getByRole("button", { name: /^Deny/ }).first().click();
    await expect(log).toContainText("Denied by you");
  });
  await test.step("files beside a message", async () => {
    await page.getByRole("button", { name: "Interrupt" }).click();
    const input = page.getByRole("textbox", { name: "Message to the agent" });
    await input.fill("look at this");
    await page.getByTestId("attach").setInputFiles([{ name: "shop.png", mimeType: "image/png", buffer: PNG }]);
    await expect(page.getByTestId("files-size")).toHaveText(/^0\.0 MB of 1\.4 MB$/);
    await page.reload();
    await expect(input).toHaveValue("look at this");
    await expect(page.getByRole("button", { name: "Remove shop.png" })).toBeVisible();
    await page.getByRole("button", { name: "Send message" }).click();
    await expect(log.getByRole("list", { name: "Attachments" })).toContainText("shop.png");
    await page.reload();
    await expect(log).toContainText("look at this");
    await expect(page.getByRole("button", { name: "Remove shop.png" })).toHaveCount(0);
  });
});

/** What the browser keeps of files, by their message; the page's own storage, read past it. */
const stored = (page: Page, seed?: { at: number; key: string }[]) => page.evaluate(async (more) => {
  const db = await new Promise<IDBDatabase>((done, fail) => {
    const r = indexedDB.open("banksman", 1);
    r.onupgradeneeded = () => void r.result.createObjectStore("files");
    r.onsuccess = () => done(r.result);
    r.onerror = () => fail(r.error!);
  });
  const t = db.transaction("files", "readwrite");
  const s = t.objectStore("files");
  for (const m of more ?? []) s.put({ at: m.at, list: [{ kind: "document", media_type: "text/plain", name: `${m.key}.txt`, data_b64: "YQ==" }] }, m.key);
  const keys = s.getAllKeys();
  await new Promise((done, fail) => {
    t.oncomplete = done;
    t.onerror = t.onabort = () => fail(t.error!);
  });
  db.close();
  return keys.result as string[];
}, seed);

test("files of twenty messages are kept for thirty days, and where there is no room the page says so and brings no part of them back", async ({ app, asker, product }) => {
  void asker; // its session is the one that is written to
  const { page } = app;
  const { sessions } = (await product.call<{ sessions: { session_key: string }[] }>("GET", "/api/sessions")).body;
  const place = sessions[0]!.session_key;
  const day = 24 * 3600_000;
  const file = (name: string, bytes = 1000) => ({ name, mimeType: "text/plain", buffer: Buffer.alloc(bytes, 97) });
  const size = page.getByTestId("files-size");
  await app.go(`s/${place}`);
  const input = page.getByRole("textbox", { name: "Message to the agent" });
  await expect(input).toBeVisible();
  // Room for small files alone; the browser asks how much there is only for what is larger than what it last saw.
  const cdp = await page.context().newCDPSession(page);
  const { usage } = await cdp.send("Storage.getUsageAndQuota", { origin: product.url });
  await cdp.send("Storage.overrideQuotaForOrigin", { origin: product.url, quotaSize: usage + 400_000 });
  await stored(page, [...Array.from({ length: 20 }, (_, i) => ({ key: `message:m${i}`, at: Date.now() - (i + 1) * day })), { key: "message:stale", at: Date.now() - 31 * day }]);

  // Whose they are stands before each key, but for those made above.
  const kept = async () => (await stored(page)).map((k) => k.replace(/^@\S+ /, ""));
  await page.getByTestId("attach").setInputFiles([file("one.txt")]);
  await expect(size).toHaveText(/^0\.0 MB of 1\.4 MB$/);
  await expect.poll(async () => (await kept()).sort()).toEqual([`message:${place}`, ...Array.from({ length: 19 }, (_, i) => `message:m${i}`)].sort());

  await page.getByTestId("attach").setInputFiles([file("two.txt", 1_200_000)]);
  await expect(size).toHaveText("1.2 MB of 1.4 MB. This browser does not keep them over a reload");
  await expect.poll(kept).not.toContain(`message:${place}`);
  expect(await kept()).toHaveLength(19);
  await page.reload();
  await expect(page.getByTestId("attach")).toBeEnabled();
  await expect(page.getByRole("button", { name: /^Remove/ })).toHaveCount(0);

  await cdp.send("Storage.overrideQuotaForOrigin", { origin: product.url });
  await page.getByTestId("attach").setInputFiles([file("three.txt")]);
  await expect(size).toHaveText(/^0\.0 MB of 1\.4 MB$/);
  await page.reload();
  await expect(page.getByRole("button", { name: "Remove three.txt" })).toBeVisible();
});
