// A session from its start to its end: talking, answering in the conversation,
// interrupting, stopping; with the demo, and with the real Claude Code.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { clean } from "./support/axe.ts";
import { LINK } from "./support/requests.ts";
import { expect, test } from "./support/test.ts";
import { type App } from "./support/ui.ts";

test.describe.configure({ timeout: 300_000 }); // many looks at many states

const PHONE = { width: 390, height: 844 };
const WIDE = { width: 1280, height: 800 };
const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
const PDF = Buffer.from("%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n");

/** The parts of a session's screen. */
function screen(app: App) {
  const { page } = app;
  return {
    log: page.getByRole("log", { name: "Conversation" }),
    input: page.getByRole("textbox", { name: "Message to the agent" }),
    send: page.getByRole("button", { name: "Send message" }),
    interrupt: page.getByRole("button", { name: "Interrupt" }),
    stop: page.getByRole("button", { name: "Stop" }),
    sure: page.getByRole("button", { name: "End it for good" }),
    mode: page.getByRole("combobox", { name: "Permission mode" }),
    status: page.getByTestId("session-status"),
    again: page.getByRole("button", { name: /^(Start another like it|Change it and start again)$/ }),
    card: page.locator("article[data-card]"),
    button: (name: RegExp) => page.locator("article[data-card]").getByRole("button", { name }).first(),
  };
}

async function start(app: App, o: { prompt: string; cwd: string; runtime: string }): Promise<void> {
  const { page } = app;
  await app.go("new");
  await page.getByRole("textbox", { name: "What should the agent do?" }).fill(o.prompt);
  await page.getByRole("combobox", { name: "Working directory" }).fill(o.cwd);
  await page.getByRole("combobox", { name: "Runtime" }).selectOption(o.runtime);
  await page.getByRole("button", { name: "Start session" }).click();
  await expect(page).toHaveURL(/#\/s\//);
}

test("a session with the demo: started, answered in place, interrupted, talked to and ended, on a desktop and on a phone D1-33 D3-08 B-74", async ({ app, product }) => {
  const { page } = app;
  const s = screen(app);
  await test.step("the empty inbox knows that a notifier listens", async () => {
    await expect(page.getByTestId("alerts")).toHaveAttribute("data-notifier", "listening");
  });
  await start(app, { prompt: "Prepare the release, please", cwd: product.work, runtime: "demo" });
  await test.step("it asks in the conversation, in place of the input", async () => {
    await expect(s.card).toContainText("git status --short");
    await expect(s.log).toContainText("Prepare the release, please");
    await expect(s.log.locator("summary").first()).toHaveText(/^Bash\s*git status --short$/);
    await expect(s.status).toHaveText(/^Waiting for you/);
    await expect(s.log.getByRole("img", { name: "runs" })).toHaveCount(0);
    await expect(s.input).toHaveCount(0);
    await clean(page, "session demo asks", { pictures: true });
  });
  await test.step("the receipt stands where it asked", async () => {
    await s.button(/^Approve once/).click();
    await expect(s.log).toContainText("Approved once by you");
    await expect(s.card).toContainText("config.yaml");
  });
  await test.step("an interrupt withdraws what waits and gives the input back", async () => {
    await s.interrupt.click();
    await expect(s.input).toBeVisible();
    await expect(s.card).toHaveCount(0);
    await expect(s.log).toContainText("Turn ended: interrupted");
    await expect(s.log.getByRole("img", { name: "runs" })).toHaveCount(0);
    await expect(s.status).toHaveCount(0);
    await expect(s.interrupt).toBeDisabled();
    await clean(page, "session demo idle", { pictures: true });
  });
  await test.step("a phone reaches every screen, and the mode and the end of the session", async () => {
    await page.setViewportSize(PHONE);
    const bar = page.getByRole("navigation", { name: "Main" });
    for (const name of ["Inbox", "Sessions", "Decisions", "Rules", "Settings"]) {
      const box = (await bar.getByRole("link", { name }).boundingBox())!;
      expect(Math.min(box.width, box.height), name).toBeGreaterThanOrEqual(44);
    }
    const here = new URL(page.url()).hash.slice(2);
    await bar.getByRole("link", { name: "Settings" }).click();
    await expect(page.getByRole("button", { name: "Sign out here" })).toBeVisible();
    await bar.getByRole("link", { name: "Rules" }).click();
    await expect(page.getByRole("heading", { name: "Rules", level: 1 })).toBeVisible();
    await app.go(here as `s/${string}`);
    const title = (await page.getByRole("heading", { name: "Prepare the release, please" }).boundingBox())!;
    expect(title.width, "the title is readable").toBeGreaterThan(180);
    await expect(s.stop).toBeHidden();
    await page.getByRole("button", { name: "Mode and end" }).click();
    await expect(s.mode).toBeVisible();
    await expect(s.stop).toBeVisible();
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth)).toBe(true);
  });
  await test.step("words make it go on, and it ends after a second press", async () => {
    await s.input.fill("again");
    await s.input.press("Enter");
    await expect(s.card).toBeVisible();
    await s.stop.click();
    await expect(s.sure).toBeFocused();
    await s.sure.click();
    await expect(page.getByText("This session has ended.")).toBeVisible();
    await expect(s.card).toHaveCount(0);
    await page.setViewportSize(WIDE);
    await clean(page, "session ended", { pictures: true });
  });
  await test.step("another like it begins with the same folder and runtime", async () => {
    await s.again.click();
    await expect(page.getByRole("combobox", { name: "Working directory" })).toHaveValue(product.work);
    await expect(page.getByRole("combobox", { name: "Runtime" })).toHaveValue("demo");
  });
});

test.describe("Claude Code", () => {
  test.use({
    script: { steps: [
      {
        conv: "walk-marker", user_text: "walk-marker",
        reply: [
          { text: "First I look at what is there, and then I make one file that was not there before.", gate: "rest" },
          { id: "toolu_touch", name: "Bash", input: { command: "echo made >> made.txt", description: "Make a file" } },
        ],
      },
      {
        conv: "walk-marker", results: [{ tool_use_id: "toolu_touch" }],
        reply: [{ id: "toolu_ask", name: "AskUserQuestion", input: { questions: [{ question: "Which database?", header: "Database", multiSelect: false, options: [{ label: "Postgres", description: "relational" }, { label: "SQLite", description: "one file" }] }] } }],
      },
      { conv: "walk-marker", results: [{ tool_use_id: "toolu_ask", contains: "SQLite" }], reply: [{ text: "SQLite it is." }] },
      { name: "files", conv: "walk-marker", user_text: "What are these?", reply: [{ text: "A picture and a document." }] },
      { name: "long", conv: "walk-marker", user_text: "Think for long", gate: "never", reply: [{ text: "never said" }] },
    ] },
  });

  test("a session with the real CLI: text as it comes, an approval, a question, an image and a document, the mode, an interrupt, the end D1-46 D3-08", async ({ app, product }) => {
    const { page } = app;
    const s = screen(app);
    await start(app, { prompt: "walk-marker", cwd: product.work, runtime: "claude" });
    await test.step("text is there while it is being written", async () => {
      await expect(s.log).toContainText("First I look at what is there");
      await expect(s.log).not.toContainText("was not there before");
      await expect(s.status).toHaveText("Working…");
      await clean(page, "session streams", { pictures: true });
      product.model!.release("rest");
      await expect(s.log).toContainText("was not there before.");
    });
    await test.step("an approval in the conversation, and what the tool said", async () => {
      await expect(s.card).toContainText("echo made >> made.txt");
      await expect(s.status).toHaveText(/^Waiting for you/);
      await s.button(/^Approve once/).click();
      await expect(s.log).toContainText("Approved once by you");
    });
    await test.step("a question in the conversation", async () => {
      await expect(s.card).toContainText("Which database?");
      await s.card.getByRole("radio", { name: "SQLite" }).check();
      await s.button(/^Submit/).click();
      await expect(s.log).toContainText("SQLite it is.");
      await expect(s.input).toBeVisible();
    });
    await test.step("what a tool was given and said is one press away", async () => {
      await s.log.locator("summary", { hasText: /^Bash/ }).first().click();
      await expect(s.log.getByLabel("Result").first()).toBeVisible();
      await clean(page, "session tool open", { pictures: true });
    });
    await test.step("an image and a document go to the model before the words, and stay in the conversation", async () => {
      await page.getByLabel("Attach").setInputFiles([{ name: "shop.png", mimeType: "image/png", buffer: PNG }, { name: "plan.pdf", mimeType: "application/pdf", buffer: PDF }]);
      await s.input.fill("What are these?");
      await clean(page, "session attachments", { pictures: true });
      await s.send.click();
      await expect(s.log).toContainText("A picture and a document.");
      const sent = s.log.getByRole("list", { name: "Attachments" });
      await expect(sent).toContainText("shop.png");
      await expect(sent).toContainText("plan.pdf");
      const brought = await product.model!.brought("files");
      const media = brought.filter((c) => c.type !== "text").map((c) => [c.type, c.source?.media_type, c.source?.data]);
      expect(media).toEqual([["image", "image/png", PNG.toString("base64")], ["document", "application/pdf", PDF.toString("base64")]]);
      expect(brought.findIndex((c) => c.type === "document")).toBeLessThan(brought.findLastIndex((c) => c.type === "text"));
    });
    await test.step("the mode changes and stays", async () => {
      await s.mode.selectOption("acceptEdits");
      await page.getByRole("button", { name: "Change to it" }).click();
      const key = decodeURIComponent(new URL(page.url()).hash.slice("#/s/".length));
      await product.until<{ sessions: { session_key: string; mode?: string }[] }>("/api/sessions", (b) => b.sessions.some((x) => x.session_key === key && x.mode === "acceptEdits"));
      await page.reload();
      await expect(s.mode).toHaveValue("acceptEdits");
      await expect(s.log).toContainText("A picture and a document.");
    });
    await test.step("an interrupt ends the turn, not the session", async () => {
      await s.input.fill("Think for long");
      await s.input.press("Enter");
      await product.model!.brought("long");
      await s.interrupt.click();
      await expect(s.log).toContainText(/interrupted/);
      await expect(s.interrupt).toBeDisabled();
      await expect(s.input).toBeVisible();
    });
    await test.step("the end", async () => {
      await s.stop.click();
      await s.sure.click();
      await expect(page.getByText("This session has ended.")).toBeVisible();
    });
  });

  test("a start that fails says why, and leads back to its form with all that was written", async ({ app, product }) => {
    const { page } = app;
    const s = screen(app);
    await start(app, { prompt: "never-marker\nwith a second line", cwd: `${product.work}/none`, runtime: "claude" });
    await expect(s.log).toContainText(`${product.work}/none does not exist`);
    await expect(page.getByText("This session did not start.")).toBeVisible();
    await expect(page.getByText(/Loading/)).toHaveCount(0);
    await clean(page, "session failed to start", { pictures: true });
    await s.again.click();
    await expect(page.getByRole("textbox", { name: "What should the agent do?" })).toHaveValue("never-marker\nwith a second line");
    await expect(page.getByRole("combobox", { name: "Working directory" })).toHaveValue(`${product.work}/none`);
  });
});

test.describe("Claude Code and others that ask through it", () => {
  test.use({
    script: { steps: [
      { conv: "child-marker", reply: [{ id: "toolu_c", name: "Bash", input: { command: "echo made >> child.txt", description: "Make a file" } }] },
      { conv: "child-marker", results: [{ tool_use_id: "toolu_c" }], reply: [{ text: "The child is done." }] },
      { conv: "root-marker", user_text: "root-marker", reply: [{ id: "toolu_t", name: "Task", input: { description: "Make a file", prompt: "child-marker: make the file", subagent_type: "general-purpose" } }] },
      { conv: "root-marker", results: [{ tool_use_id: "toolu_t" }], reply: [{ text: "The root is done." }], repeat: true },
      { conv: "root-marker", reply: [{ text: "I heard." }], repeat: true, optional: true },
      { conv: "page-marker", user_text: "page-marker", reply: [{ id: "toolu_p", name: "mcp__gate__connect", input: {} }] },
      { conv: "page-marker", results: [{ tool_use_id: "toolu_p", contains: `page: {"action":"accept"` }], reply: [{ text: "Connected, thank you." }] },
    ] },
  });

  test("a sub-agent asks in the session of its root, under its own name, and what it does stands below its task B-44", async ({ app, product }) => {
    const s = screen(app);
    await start(app, { prompt: "root-marker", cwd: product.work, runtime: "claude" });
    await expect(s.card).toContainText("echo made >> child.txt");
    await expect(s.card).toContainText("general-purpose (");
    await expect(app.page).toHaveTitle("(1) Banksman");
    await s.button(/^Approve once/).click();
    await expect(s.log).toContainText("The child is done.");
    const sub = s.log.getByRole("region", { name: "Sub-agent" });
    await expect(sub.first()).toContainText("Make a file");
    await expect(sub.filter({ hasText: "The child is done." }).first()).toBeVisible();
    await expect(s.log).toContainText("Approved once by you");
  });

  test("a page that an MCP server wants opened is a request of its own, and the server hears what a person said D0-05 B-54", async ({ app, product }) => {
    const { page } = app;
    const s = screen(app);
    const config = product.env.CLAUDE_CONFIG_DIR!;
    mkdirSync(config, { recursive: true });
    writeFileSync(join(config, ".claude.json"), JSON.stringify({ mcpServers: { gate: { type: "stdio", command: process.execPath, args: [join(import.meta.dirname, "support/mcp.mjs"), LINK] } } }));
    await start(app, { prompt: "page-marker", cwd: product.work, runtime: "claude" });
    await expect(s.card).toContainText("use connect of the MCP server gate");
    await s.button(/^Approve once/).click();
    await expect(s.card).toContainText(LINK);
    await expect(s.card).toContainText("have you open a page of tickets.example");
    await expect(s.card).toContainText("Please connect your account");
    await expect(s.card.getByTestId("open-link")).toHaveAttribute("href", LINK);
    expect(page.context().pages()).toHaveLength(1);
    await s.button(/^Approve once/).click();
    await expect(s.log).toContainText("Connected, thank you.");
    expect(page.context().pages()).toHaveLength(1);
  });
});
