// A session on a phone: the conversation and what waits share the screen, and what is
// written with the files beside it outlives a reload.
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
