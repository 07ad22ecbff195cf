// Odd browsers, odd clocks, odd texts: what nobody plans for and somebody has.
import type { Locator, Page } from "@playwright/test";
import { settled } from "./support/axe.ts";
import { command, FEATURES, inSession, kind } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";
import { App } from "./support/ui.ts";
import type { Request } from "./support/asker.ts";

/** Everything that a reader could not see, or that turns a text around. */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\uffff]|\udb40[\udc00-\udfff]/;

/** What of a page has such characters: its texts, and what screen readers and pointers are told. */
async function unseen(page: Page): Promise<string[]> {
  return await page.evaluate((source) => {
    const bad = new RegExp(source);
    const found: string[] = [];
    const name = (e: Element | null) => (e ? `${e.tagName.toLowerCase()}.${e.getAttribute("data-testid") ?? e.className}` : "");
    const texts = document.createTreeWalker(document, NodeFilter.SHOW_TEXT);
    for (let n = texts.nextNode(); n; n = texts.nextNode()) {
      if (n.parentElement?.closest("script, style")) continue;
      if (bad.test(n.nodeValue ?? "")) found.push(`text in ${name(n.parentElement)}: ${JSON.stringify(n.nodeValue!.slice(0, 80))}`);
    }
    for (const e of document.querySelectorAll("*")) for (const a of e.attributes) if (a.name !== "data-testid" && bad.test(a.value)) found.push(`${a.name} of ${name(e)}: ${JSON.stringify(a.value.slice(0, 80))}`);
    return found;
  }, UNSEEN.source);
}

/** No way to reach a part of the page but by scrolling sideways. */
async function fits(page: Page, what: string): Promise<void> {
  const wide = await page.evaluate(() => {
    const limit = document.documentElement.clientWidth;
    return [...document.querySelectorAll("main, main *")].filter((e) => {
      const box = e.getBoundingClientRect();
      return box.width > 0 && box.right > limit + 1 && !e.closest("[data-testid=tools], .sr-only, pre");
    }).map((e) => `${e.tagName.toLowerCase()}.${e.className.toString().slice(0, 60)} to ${Math.round(e.getBoundingClientRect().right)}`);
  });
  expect(wide, what).toEqual([]);
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), what).toBe(true);
}

/** Reads a card to its end as people do, a piece after the other. */
async function read(page: Page, card: Locator): Promise<void> {
  await page.locator("main").evaluate((main) => main.scrollTo(0, 0));
  await page.locator("main").hover();
  for (let i = 0; i < 200; i++) {
    const left = await card.evaluate((e) => {
      const main = e.closest("main")!;
      return main.scrollHeight - main.clientHeight - main.scrollTop;
    });
    if (left < 2) return;
    await page.mouse.wheel(0, 60);
    await settled(page);
  }
  throw new Error("the card has no end");
}

for (const [name, script] of [
  ["is full", () => { Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); }; }],
  ["is forbidden", () => { Object.defineProperty(window, "localStorage", { get() { throw new DOMException("denied", "SecurityError"); } }); }],
] as const) {
  test(`a browser whose storage ${name} can sign in, write and decide, as long as the page is open`, async ({ page, product, asker }) => {
    await page.addInitScript(script);
    const app = new App(page, product);
    await app.signIn();
    const asked = await asker.ask(inSession(command("deploy"), SESSION));
    const card = app.card(asked);
    await card.isWhole();
    await page.keyboard.press("?");
    await app.help.getByRole("checkbox").uncheck();
    await app.help.getByRole("button", { name: "Close" }).click();
    await card.root.focus();
    await page.waitForTimeout(450);
    await page.keyboard.press("n");
    await page.waitForTimeout(100);
    await card.is("pending");
    await card.denyWithReason.click();
    await card.reason.fill("half a thought");
    await app.go("settings");
    await expect(page.getByTestId("settings")).toBeVisible();
    await card.sendReason.or(page.getByRole("link", { name: "Inbox" }).first()).first().click();
    await card.isWhole();
    await card.deny.or(card.sendReason).first().click();
    expect((await asked.answer()).outcome).toBe("denied");
  });
}

for (const [name, days] of [["ahead", 45], ["behind", -400]] as const) {
  test(`a clock that is ${Math.abs(days)} days ${name}: one signs in, and the time that is left is the server's B-20 B-22`, async ({ page, product, asker }) => {
    await page.clock.install({ time: Date.now() + days * 24 * 3600_000 });
    const app = new App(page, product);
    await app.signIn();
    const asked = await asker.ask(inSession(command("deploy"), SESSION, { expires_in: "30m" }));
    const card = app.card(asked);
    await card.isWhole();
    await card.reads(/(29|30) min left/, "just now");
    await card.approve.click();
    await card.is("confirmed");
    expect((await asked.answer()).outcome).toBe("allowed");
  });
}

test("a form whose fields are called as parts of JavaScript is a form like any other D0-32 D0-42 B-08", async ({ app, product, asker }) => {
  const names = ["constructor", "toString", "__proto__", "hasOwnProperty"];
  const schema = JSON.parse(`{"type":"object","required":["constructor","toString","__proto__","hasOwnProperty"],"properties":{
    "constructor":{"type":"string","enum":["a","b"]},"toString":{"type":"integer","minimum":1},"__proto__":{"type":"integer"},"hasOwnProperty":{"type":"boolean"}}}`) as unknown;
  const asked = await asker.ask(inSession({ ...kind("form").request, title: "Odd names", schema }, SESSION));
  const card = await app.open(asked);
  await card.is("pending");
  await card.isWhole();
  await expect(card.root.locator("[aria-invalid]")).toHaveCount(0);
  await card.root.getByRole("radio", { name: "b", exact: true }).check();
  await card.root.getByRole("textbox", { name: "toString" }).fill("2");
  await card.root.getByRole("textbox", { name: "__proto__" }).fill("x");
  await card.root.getByRole("radio", { name: "Yes" }).check();
  await expect(card.submit).toBeDisabled();
  await card.reads("Look at the marked fields");
  await card.root.getByRole("textbox", { name: "__proto__" }).fill("3");
  await app.page.reload();
  await expect(card.root.getByRole("textbox", { name: "__proto__" })).toHaveValue("3");
  await card.submit.click();
  await card.is("confirmed");
  expect((await asked.answer()).outcome).toBe("answered");
  const { body } = await product.call<{ decision: { content: Record<string, unknown> } }>("GET", `/api/interactions/${asked.key}`);
  for (const n of names) expect(Object.hasOwn(body.decision.content, n), n).toBe(true);
});

test("a key that ends a composition ends nothing else, in every text field B-60", async ({ app, asker }) => {
  const { page } = app;
  const cdp = await page.context().newCDPSession(page);
  const compose = async (key: string) => {
    await cdp.send("Input.imeSetComposition", { text: "こ", selectionStart: 1, selectionEnd: 1 });
    await page.keyboard.press(key);
    await cdp.send("Input.imeSetComposition", { text: "", selectionStart: 0, selectionEnd: 0 });
  };
  const approval = await asker.ask(inSession(command("deploy"), SESSION));
  const question = await asker.ask(inSession(kind("question").request, SESSION));
  const card = await app.open(approval);
  await card.seeAll();
  await test.step("an edit", async () => {
    await card.edit.click();
    await card.editText.fill('{"command":"make half"}');
    for (const key of ["Escape", "Control+Enter"]) {
      await compose(key);
      await expect(card.editText).toBeVisible();
      await card.is("pending");
    }
    await expect(card.editText).toHaveValue(/make half/);
    await card.root.getByRole("button", { name: /^Cancel/ }).click();
  });
  await test.step("a reason", async () => {
    await card.denyWithReason.click();
    await card.reason.fill("because");
    for (const key of ["Escape", "Enter"]) {
      await compose(key);
      await expect(card.reason).toBeVisible();
      await card.is("pending");
    }
    await expect(card.reason).toHaveValue(/because/);
  });
  await test.step("words in place of an answer", async () => {
    const q = await app.open(question);
    await q.clarify.click();
    await q.clarifyText.fill("first tell me");
    for (const key of ["Escape", "Control+Enter"]) {
      await compose(key);
      await expect(q.clarifyText).toBeVisible();
      await q.is("pending");
    }
  });
  expect(approval.answered() || question.answered()).toBe(false);
});

test("an edited input is approved for this call, whatever was chosen before it was edited B-55 B-59", async ({ app, product, asker }) => {
  const suggestions = [{ type: "addRules", rules: [{ toolName: "Bash", ruleContent: "make:*" }], behavior: "allow", destination: "session" }];
  const asked = await asker.ask(inSession(command("deploy", { suggestions }), SESSION));
  const card = await app.open(asked);
  await card.seeAll();
  await card.root.getByTestId("scope").selectOption("session");
  await expect(card.approve).toHaveText(/Approve for session/);
  await card.edit.click();
  await card.editText.fill('{"command":"make other"}');
  await card.approveEdited.click();
  await card.reads("Approved once, edited by you");
  expect((await product.interaction(asked.key)).decision?.scope ?? "once").toBe("once");
});

test("what is pasted into an edit without being seen is told before it is approved B-54", async ({ app, asker }) => {
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const card = await app.open(asked);
  await card.seeAll();
  await card.edit.click();
  await card.editText.fill('{"command":"make deploy\u200b \u202eyolped"}');
  await card.reads(/2 invisible characters/, "U+200B", "U+202E");
  await card.editText.fill('{"command":"make deploy"}');
  await expect(card.root).not.toContainText("invisible character");
});

test("an input with invisible characters is edited as what it is B-54 B-55 invariant5", async ({ app, asker }) => {
  const asked = await asker.ask(inSession(command("x", { tool: { name: "Bash", input: { command: "echo a\u200bb ⟦U+200B⟧ && make x" } } }), SESSION));
  const card = await app.open(asked);
  await card.seeAll();
  await card.reads("⟦U+200B⟧");
  await card.edit.click();
  const text = await card.editText.inputValue();
  expect(text).not.toMatch(UNSEEN);
  await card.editText.fill(text.replace("make x", "make y"));
  await card.approveEdited.click();
  const answer = await asked.answer();
  expect(JSON.parse(answer.input!)).toEqual({ command: "echo a\u200bb ⟦U+200B⟧ && make y" });
});

test("who signs out in one tab is signed out in all of them, and nothing can be decided there", async ({ app, asker }) => {
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const tabs = [await app.tab(), await app.tab()];
  for (const t of [app, ...tabs]) await t.card(asked).isWhole();
  await app.page.getByRole("button", { name: "Sign out here" }).click();
  for (const t of [app, ...tabs]) {
    await expect(t.page.getByRole("heading", { name: "Sign in from your terminal" })).toBeVisible();
    await expect(t.cards()).toHaveCount(0);
  }
  expect(asked.answered()).toBe(false);
});

test.describe("a network that loses single files", () => {
  test.use({ serviceWorkers: "block" });

  test("a card whose code did not come can be drawn later, and what failed to come is fetched again B-31 D4-18", async ({ app, asker }) => {
    const { page } = app;
    const asked = await asker.ask(inSession(kind("question").request, SESSION));
    const long = await asker.ask(inSession(command("x", { reason: "because ".repeat(1000) }), SESSION));
    let broken = true;
    const fail = /\/assets\/QuestionCard-[^/]*\.js|\/api\/interactions\/[^/?]+$/;
    await page.route(fail, (route) => (broken ? route.abort() : route.continue()));
    await page.reload();
    const card = app.card(asked);
    await expect(card.root).toBeVisible();
    await expect(app.card(long).root).toContainText("could not be fetched");
    await expect(card.submit).toHaveCount(0);
    broken = false;
    app.product.line.cut();
    await expect(app.connection).toContainText(/Connection lost|Connecting again/);
    app.product.line.mend();
    await expect(app.connection).toHaveText(/^Connected/);
    await app.card(long).isWhole();
    const again = card.root.getByRole("button", { name: "Try to draw it again" });
    if (await again.isVisible()) await again.click();
    await card.option("SQLite").check();
    await card.own(FEATURES).fill("all of them");
    await card.submit.click();
    expect((await asked.answer()).outcome).toBe("answered");
  });
});

test("no field of any kind brings an unseen character to any screen B-54 invariant10", async ({ app, product, asker }) => {
  test.setTimeout(240_000);
  const { page } = app;
  const bad = "a\u202eb\u200bc\u2066d\u00ade\u0007f";
  const common = { agent_name: bad, project_id: bad, reason: bad, message: bad };
  const requests: Request[] = [
    { kind: "approval", title: bad, ...common, tool: { name: bad, server: bad, description: bad, cwd: `/${bad}`, input: { [bad]: bad } } },
    { kind: "approval", title: bad, ...common, tool: { name: "Edit", input: { file_path: `/${bad}`, old_string: bad, new_string: `${bad}2` } } },
    { kind: "approval", title: bad, ...common, tool: { name: "Write", input: { file_path: `/${bad}`, content: bad } } },
    { kind: "approval", title: bad, ...common, session_id: bad, tool: { name: "ExitPlanMode", input: { plan: bad } } },
    { kind: "approval", title: bad, ...common, options: [{ option_id: "o", name: bad, effect: "allow" }], suggestions: [{ type: "addRules", rules: [{ toolName: bad, ruleContent: bad }], behavior: "allow", destination: "session" }], tool: { name: "Bash", input: { command: bad, description: bad } } },
    { kind: "question", title: bad, ...common, questions: [{ id: "q", header: bad, question: bad, options: [{ label: bad, description: bad, preview: bad }, { label: "other" }] }] },
    { kind: "form", title: bad, ...common, schema: { type: "object", title: bad, description: bad, properties: { [bad]: { type: "string", title: bad, description: bad }, e: { type: "string", enum: [bad, "b"], title: bad } } } },
  ];
  await asker.session("odd", bad);
  await asker.event("odd", "text", { role: "assistant", text: bad });
  await asker.event("odd", "text", { role: "user", text: bad, attachments: [{ kind: "image", media_type: bad, name: bad }] });
  await asker.event("odd", "tool_call_start", { tool_call_id: "t1", tool_name: bad });
  await asker.event("odd", "tool_call_end", { tool_call_id: "t1", tool_name: bad, input: JSON.stringify({ [bad]: bad }) });
  await asker.event("odd", "tool_result", { tool_call_id: "t1", content: bad, is_error: true });
  await asker.event("odd", "error", { message: bad });
  const asked = [];
  for (const r of requests) {
    try {
      asked.push(await asker.ask(inSession(r, r.session_id ?? "odd"), { stage: "refused", detail: bad }));
    } catch {
      // refused as invalid where a field may not have such at all
    }
  }
  expect(asked.length).toBeGreaterThan(4);
  const look = async (what: string) => {
    expect.soft(await unseen(page), what).toEqual([]);
    expect.soft(await page.title(), what).not.toMatch(UNSEEN);
  };
  await app.wholeCards();
  for (const a of asked) await app.card(a).isWhole();
  await look("the inbox");
  await app.overview();
  await look("the overview");
  await app.go("s/default.agents.odd");
  await expect(page.getByRole("log", { name: "Conversation" }).locator("summary").first()).toBeVisible();
  await page.getByRole("log", { name: "Conversation" }).locator("summary").first().click();
  await look("the session");
  const colleague = await product.colleague("Grace");
  for (const a of asked) await colleague.decide(a.key, { action: "dismiss", comment: bad }).catch(() => undefined);
  await page.waitForTimeout(300);
  await look("the session afterwards");
  await app.go("history");
  await expect(page.getByTestId("history")).toContainText("That is all.");
  await look("decisions");
  await app.go("sessions");
  await look("sessions");
});

test("names of any length and in any script, as many options as there may be, at 400 % zoom: all can be read and answered D1-34 D1-41", async ({ app, asker }) => {
  test.setTimeout(240_000);
  const { page } = app;
  const long = "بناء-الإصدار-".repeat(40);
  const unbroken = "x".repeat(900);
  // As many as there may be.
  const many = (n: number) => Array.from({ length: 12 }, (_, i) => ({ label: `option ${n}.${i} ${i % 3 === 0 ? "خيار" : unbroken.slice(0, 60)}` }));
  const big = await asker.ask(inSession({ kind: "question", agent_name: long.slice(0, 100), project_id: unbroken.slice(0, 100), title: "Which?", questions: [1, 2, 3, 4].map((n) => ({ id: `q${n}`, question: `Which of these? ${n} ${unbroken}`, options: many(n) })) }, SESSION));
  const path = await asker.ask(inSession({ kind: "approval", agent_name: long.slice(0, 100), title: "Write it", tool: { name: "Write", input: { file_path: `/srv/${long}/${unbroken}`, content: unbroken } } }, SESSION));
  // 1280 by 1024 at 400 %.
  for (const size of [{ width: 320, height: 256 }, { width: 1280, height: 800 }]) {
    await page.setViewportSize(size);
    const card = await app.open(path);
    await card.isWhole();
    await fits(page, `a path at ${size.width}x${size.height}`);
    await read(page, card.root);
    await expect(card.approve, `at ${size.width}x${size.height}`).toBeEnabled();
    await card.approve.click({ trial: true });
    const q = await app.open(big);
    await q.isWhole();
    await fits(page, `a question at ${size.width}x${size.height}`);
    await app.go("");
    await fits(page, `the inbox at ${size.width}x${size.height}`);
    await app.go(`s/default.agents.release`);
    await fits(page, `the session at ${size.width}x${size.height}`);
  }
  await page.setViewportSize({ width: 320, height: 256 });
  const card = await app.open(path);
  await read(page, card.root);
  await card.approve.click();
  expect((await path.answer()).outcome).toBe("allowed");
  const q = await app.open(big);
  for (const n of [1, 2, 3, 4]) await q.root.getByRole("radio", { name: `option ${n}.7 ` }).check();
  await q.submit.click();
  expect((await big.answer()).outcome).toBe("answered");
});

test("letters of a script that runs from right to left do not change the order of what is run B-54", async ({ app, asker }) => {
  // The neutral signs between two words of such a script would turn around with them.
  const line = "cp אבג 12 / דהו /etc";
  for (const [name, input] of [
    ["Bash", { command: line }],
    ["Write", { file_path: "/srv/app/run.sh", content: line }],
    ["Edit", { file_path: "/srv/app/run.sh", old_string: "true", new_string: line }],
    ["mcp__shell__run", { line }],
  ] as const) {
    await test.step(name, async () => {
      const asked = await asker.ask(inSession(command("x", { tool: { name, input } }), SESSION));
      const card = await app.open(asked);
      await card.isWhole();
      const order = await card.root.evaluate((root) => {
        const at = (word: string) => {
          const walk = document.createTreeWalker(root.querySelector(".bg-code")!, NodeFilter.SHOW_TEXT);
          for (let n = walk.nextNode(); n; n = walk.nextNode()) {
            const i = (n.nodeValue ?? "").indexOf(word);
            if (i < 0) continue;
            const r = document.createRange();
            r.setStart(n, i);
            r.setEnd(n, i + word.length);
            return r.getBoundingClientRect().left;
          }
          return -1;
        };
        return ["cp", "אבג", "12", "דהו", "/etc"].map(at);
      });
      expect(order).not.toContain(-1);
      expect(order).toEqual([...order].sort((a, b) => a - b));
      asked.withdraw();
    });
  }
});

test("somebody who may only look sees that a request waits, and nothing that decides", async ({ page, product, asker }) => {
  const waits = [];
  for (const name of ["Bash", "question", "form"]) waits.push(await asker.ask(inSession(kind(name).request, SESSION)));
  const r = await product.call<{ token: string }>("POST", "/api/tokens", { name: "Vera", roles: [{ role: "viewer", projects: ["*"] }], expires_in: 3600 });
  const viewer = new App(page, product);
  await viewer.signInWith(r.body.token);
  for (const asked of waits) {
    const card = await viewer.open(asked);
    await expect(card.root).toContainText("your role does not reach it");
    await expect(card.deciding()).toHaveCount(0);
    await expect(card.root.getByRole("textbox")).toHaveCount(0);
    await card.root.press("n");
    await card.is("pending");
  }
  expect(waits.some((a) => a.answered())).toBe(false);
});
