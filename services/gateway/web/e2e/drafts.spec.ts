// What somebody has half written is theirs: a reload, a lost line and a lost race
// leave it there, for every kind of card and every field that it has.
import type { Locator } from "@playwright/test";
import { FEATURES, inSession, kind, kinds } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";
import type { Kind } from "./support/requests.ts";
import type { Card } from "./support/ui.ts";

interface Writing {
  name: string;
  kind: Kind;
  text: string;
  /** Opens the field and writes. */
  write: (card: Card) => Promise<void>;
  field: (card: Card) => Locator;
  send: (card: Card) => Promise<void>;
}

const half = "half a thought: y n r e 1 \u00e9\u{1f600}";

const reasons: Writing[] = kinds.filter((k) => k.request.kind === "approval").map((k) => ({
  name: `the reason of a denial, ${k.name}`, kind: k, text: half,
  write: async (card) => {
    await card.denyWithReason.click();
    await card.reason.fill(half);
  },
  field: (card) => card.reason,
  send: (card) => card.sendReason.click(),
}));

const edited = '{"command":"make half","note":9007199254740993}';
const numbers = '{"env":"staging","replicas":9007199254740993}';

const others: Writing[] = [
  {
    name: "an edited input", kind: kind("Bash"), text: edited,
    write: async (card) => {
      await card.seeAll();
      await card.edit.click();
      await card.editText.fill(edited);
    },
    field: (card) => card.editText,
    send: async (card) => {
      await card.seeAll();
      await card.approveEdited.click();
    },
  },
  {
    name: "an own answer", kind: kind("question"), text: half,
    write: async (card) => {
      await card.option("SQLite").check();
      await card.own(FEATURES).fill(half);
    },
    field: (card) => card.own(FEATURES),
    send: (card) => card.submit.click(),
  },
  ...["question", "form"].map((name): Writing => ({
    name: `words in place of an answer, ${name}`, kind: kind(name), text: half,
    write: async (card) => {
      await card.clarify.click();
      await card.clarifyText.fill(half);
    },
    field: (card) => card.clarifyText,
    send: (card) => card.sendClarify.click(),
  })),
  {
    name: "a field of a form", kind: kind("form"), text: "7",
    write: async (card) => {
      await card.option("production").check();
      await card.root.getByRole("textbox", { name: "Replicas" }).fill("7");
    },
    field: (card) => card.root.getByRole("textbox", { name: "Replicas" }),
    send: (card) => card.submit.click(),
  },
  {
    name: "a form as JSON", kind: kind("elicitation of an MCP server"), text: numbers,
    write: async (card) => {
      await card.root.getByRole("button", { name: "Write it as JSON instead" }).click();
      await card.root.getByRole("textbox", { name: /Your answer, as JSON/ }).fill(numbers);
    },
    field: (card) => card.root.getByRole("textbox", { name: /Your answer, as JSON/ }),
    send: (card) => card.submit.click(),
  },
];

/** Somebody else's word, which is never what was half written. */
const otherSays = (w: Writing): Record<string, unknown> => (w.kind.request.kind === "approval" ? { decision: w.name.startsWith("an edited") ? "deny" : "allow" } : w.kind.other);

for (const [group, list] of [["reasons", reasons], ["everything else", others]] as const) {
  test(`half written: ${group}, after a reload, a lost line and a lost race B-17 B-25 B-31 D0-37 D1-40 invariant5`, async ({ app, product, asker }) => {
    test.setTimeout(300_000);
    const colleague = await product.colleague("Grace");
    for (const w of list) {
      await test.step(w.name, async () => {
        const asked = await asker.ask(inSession(w.kind.request, SESSION));
        const twin = await asker.ask(inSession(w.kind.request, SESSION));
        let card = await app.open(asked);
        await card.isWhole();
        await w.write(card);
        await app.page.reload();
        await expect(w.field(card)).toHaveValue(w.text);
        product.line.cut();
        await expect(app.connection).toContainText(/Connection lost|Connecting again/);
        await expect(w.field(card)).toHaveValue(w.text);
        product.line.mend();
        await expect(app.connection).toHaveText(/^Connected/);
        await expect(w.field(card)).toHaveValue(w.text);
        // The same asked again has none of it.
        card = await app.open(twin);
        await card.isWhole();
        await expect(w.field(card)).not.toHaveValue(w.text, { timeout: 100 }).catch(async () => expect(w.field(card)).toHaveCount(0));
        twin.withdraw();

        card = await app.open(asked);
        await expect(w.field(card)).toHaveValue(w.text);
        product.line.hold();
        await colleague.decide(asked.key, otherSays(w));
        await w.send(card);
        await card.is("sending");
        product.line.release();
        await card.is("lost");
        await card.reads("Grace was first");
        await expect(card.unsent).toContainText(w.text);
        await app.page.reload();
        await expect(card.unsent).toContainText(w.text);
        await card.root.getByRole("button", { name: "Discard it" }).click();
        await expect(card.unsent).toHaveCount(0);
      });
    }
  });
}
