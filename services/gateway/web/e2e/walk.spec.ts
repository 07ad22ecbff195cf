// A whole session without a pointer: from an empty inbox to its end, and every other
// screen. Nothing here uses the mouse, and nothing is decided while somebody types.
import type { Locator } from "@playwright/test";
import { expect, test } from "./support/test.ts";

/** Longer than the pause after a card got the focus and after each key. */
const QUIET = 450;

test("a session from the keyboard alone: start, answer each kind, edit, refuse, interrupt, talk, mode, end, and all screens D1-36 D1-37 B-60 D3-08", async ({ app, product }) => {
  test.setTimeout(240_000);
  const { page } = app;
  const { keyboard } = page;
  /** By Tab, forwards or backwards, as far as it takes. */
  const to = async (where: Locator, most = 60, key = "Tab"): Promise<number> => {
    await expect(where).toBeVisible();
    for (let n = 0; n <= most; n++) {
      if (await where.evaluate((e) => e === document.activeElement)) return n;
      await keyboard.press(key);
    }
    throw new Error(`not reached by ${most} times ${key}: ${String(where)}`);
  };
  const keys = async (...list: string[]) => {
    for (const k of list) {
      await page.waitForTimeout(QUIET);
      await keyboard.press(k);
    }
  };
  const log = page.getByRole("log", { name: "Conversation" });
  const waiting = page.locator("article[data-card][data-state=pending]");
  /** The card that asks this has the focus; j leads to it from anywhere. */
  const card = async (text: string): Promise<Locator> => {
    const c = waiting.filter({ hasText: text }).first();
    await expect(c).toBeVisible();
    await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
    await keyboard.press("j");
    await expect(c).toBeFocused();
    return c;
  };

  await test.step("from the empty inbox to a session", async () => {
    await to(page.getByRole("link", { name: "Start an agent" }));
    await keyboard.press("Enter");
    await to(page.getByRole("textbox", { name: "What should the agent do?" }));
    await keyboard.type("Prepare the release: y n 1");
    await to(page.getByRole("combobox", { name: "Working directory" }));
    await keyboard.type(product.work);
    const runtime = page.getByRole("combobox", { name: "Runtime" });
    await to(runtime);
    for (let i = 0; i < 5 && (await runtime.inputValue()) !== "demo"; i++) await keyboard.press("ArrowDown");
    await expect(runtime).toHaveValue("demo");
    await to(page.getByRole("button", { name: "Start session" }));
    await keyboard.press("Enter");
    await expect(page).toHaveURL(/#\/s\//);
  });
  await test.step("the first control that decides is within three stops", async () => {
    const c = await card("git status --short");
    const stops: string[] = [];
    for (let i = 0; i < 3; i++) {
      await keyboard.press("Tab");
      stops.push(await page.evaluate(() => document.activeElement?.textContent ?? ""));
    }
    expect(stops.some((s) => /^(Deny|Approve)(?! with)/.test(s)), stops.join(" | ")).toBe(true);
    await c.focus();
    await keys("y");
    await expect(log).toContainText("Approved once by you");
  });
  await test.step("edit, then approve", async () => {
    await card("config.yaml");
    await keys("e");
    const text = page.getByRole("textbox", { name: /The input that will run/ });
    await expect(text).toBeFocused();
    const input = await text.inputValue();
    await keyboard.press("Control+A");
    await keyboard.insertText(input.replace("30s", "20s"));
    await keyboard.press("Control+Enter");
    await expect(log).toContainText("Approved once, edited by you");
  });
  await test.step("refuse with a reason, which is text and nothing else", async () => {
    await card("RELEASE.md");
    await keys("r");
    await expect(page.getByRole("textbox", { name: /Why not\?/ })).toBeFocused();
    await keyboard.type("y n e 1, please shorter");
    await expect(waiting.filter({ hasText: "RELEASE.md" })).toHaveCount(1);
    await keyboard.press("Enter");
    await expect(log).toContainText("y n e 1, please shorter");
  });
  await test.step("refuse", async () => {
    await card("git push --force");
    await keys("n");
    await expect(log.getByText(/^Denied by you/)).toHaveCount(2);
  });
  await test.step("questions by their numbers", async () => {
    const c = await card("Where should the release go first?");
    await keys("2", "1");
    await expect(c.getByRole("radio", { name: "Canary" })).toBeChecked();
    await expect(c.getByRole("checkbox", { name: "Payments" })).toBeChecked();
    await keys("Control+Enter");
    await expect(log).toContainText("Answered by you");
  });
  await test.step("a form", async () => {
    const c = await card("Please fill in the deployment");
    await to(c.getByRole("radio", { name: "staging" }));
    await keyboard.press("Space");
    await to(c.getByRole("textbox", { name: "Replicas" }));
    await keyboard.type("3");
    await keyboard.press("Control+Enter");
    await expect(log.getByText(/^Answered by you/)).toHaveCount(2);
  });
  await test.step("a tool of a server, read to its end first", async () => {
    const c = await card("9007199254740993");
    await keys("y");
    if (await c.isVisible()) await keys("y");
    await expect(log.getByText(/^Approved once by you/)).toHaveCount(2);
  });
  await test.step("an interrupt, and words after it", async () => {
    await card("/demo/shop/logs/");
    await to(page.getByRole("button", { name: "Interrupt" }), 80, "Shift+Tab");
    await keyboard.press("Enter");
    const input = page.getByRole("textbox", { name: "Message to the agent" });
    await expect(log).toContainText("Turn ended: interrupted");
    await to(input, 80);
    await keyboard.type("again");
    await keyboard.press("Enter");
    await card("/demo/shop/logs/");
  });
  await test.step("the mode", async () => {
    const mode = page.getByRole("combobox", { name: "Permission mode" });
    await to(mode, 80, "Shift+Tab");
    const before = await mode.inputValue();
    await keyboard.press("ArrowDown");
    await to(page.getByRole("button", { name: "Change to it" }), 80);
    await keyboard.press("Enter");
    await expect(page.getByRole("group", { name: "Change the mode" })).toHaveCount(0);
    await expect(mode).not.toHaveValue(before);
  });
  await test.step("the end, by a second press", async () => {
    await to(page.getByRole("button", { name: "Stop" }), 80);
    await keyboard.press("Enter");
    await expect(page.getByRole("button", { name: "End it for good" })).toBeFocused();
    await keyboard.press("Enter");
    await expect(page.getByText("This session has ended.")).toBeVisible();
    await expect(waiting).toHaveCount(0);
  });
  await test.step("the other screens, and something on each", async () => {
    const side = page.getByRole("navigation", { name: "Main" }).first();
    await to(side.getByRole("link", { name: "Decisions" }), 80);
    await keyboard.press("Enter");
    await to(page.getByRole("searchbox"), 80);
    await keyboard.type("shorter");
    await keyboard.press("Enter");
    await expect(page.getByTestId("history")).toContainText("please shorter");
    await expect(page.getByTestId("history")).not.toContainText("git status");
    await to(side.getByRole("link", { name: "Rules" }), 80);
    await keyboard.press("Enter");
    await expect(page.getByRole("heading", { name: "Rules", level: 1 })).toBeVisible();
    await to(page.getByRole("link", { name: "Settings" }).first(), 80);
    await keyboard.press("Enter");
    const colours = page.getByRole("region", { name: "This browser" }).getByRole("combobox", { name: "Colours" });
    await to(colours, 80);
    await keyboard.type("Dark");
    await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
    await keyboard.press("Escape");
    await page.evaluate(() => (document.activeElement as HTMLElement).blur());
    await keyboard.press("?");
    await expect(app.help).toBeVisible();
    await keyboard.press("Escape");
    await expect(app.help).toHaveCount(0);
  });
});
