// What became of a request, in words of its own for each outcome and each kind, on
// the card and in the list of decisions; and what the agent made of it.
import { clean } from "./support/axe.ts";
import { inSession, kinds } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";
import type { Asked } from "./support/asker.ts";
import type { Kind } from "./support/requests.ts";
import type { App } from "./support/ui.ts";

/** How a receipt begins. Each outcome has words that no other has. */
const words: Record<string, RegExp> = {
  allowed: /\bApproved once by\b/,
  denied: /\bDenied by\b/,
  answered: /\bAnswered by\b/,
  clarify: /\bAnswered in words by\b/,
  dismissed: /\bDismissed without an answer by\b/,
  expired: /\bExpired, nobody (decided|answered)\b/,
  cancelled: /\bWithdrawn by the agent\b/,
  orphaned: /\bEnded without a decision: the agent is gone\b/,
  invalid: /\bNever shown for a decision: the request was invalid\b/,
};

const consent = (k: Kind): boolean => k.request.kind === "approval";

/** What people say to a kind, by the outcome that it gives. */
function says(k: Kind): Record<string, Record<string, unknown>> {
  return {
    ...(consent(k) ? { allowed: { decision: "allow" }, denied: { decision: "deny", message: "not on a Friday" } } : { answered: k.other, clarify: { action: "clarify", message: "ask the owner of it" } }),
    dismissed: { action: "dismiss" },
  };
}

/** The receipt says this outcome and no other, wherever it stands. */
async function tells(app: App, asked: Asked, outcome: string, what: string): Promise<void> {
  const receipt = app.page.getByTestId(`receipt-${asked.id}`);
  await expect(receipt, what).toContainText(words[outcome]!);
  const text = (await receipt.textContent()) ?? "";
  for (const [other, w] of Object.entries(words)) if (other !== outcome) expect(text, `${what}, not ${other}`).not.toMatch(w);
}

test.describe("an agent that is gone in the end", () => {
  test.use({ flags: ["--orphan-after", "15s", "--quota-open", String(kinds.length)] });

  test("every outcome of every kind has words of its own, on the card, after a reload and in the list of decisions B-11 B-12 B-23 B-32 D0-39 invariant4", async ({ app, product, asker }) => {
    test.setTimeout(300_000);
    const { page } = app;
    const colleague = await product.colleague("Grace");
    const all: { kind: Kind; asked: Asked; outcome: string; what: string }[] = [];
    const add = (kind: Kind, outcome: string, asked: Asked) => all.push({ kind, asked, outcome, what: `${kind.name}, ${outcome}` });
    for (const kind of kinds) {
      for (const [outcome, say] of Object.entries(says(kind))) {
        const asked = await asker.ask(inSession(kind.request, SESSION));
        await colleague.decide(asked.key, say);
        add(kind, outcome, asked);
      }
      add(kind, "expired", await asker.ask(inSession(kind.request, SESSION, { expires_in: "1s" })));
      const withdrawn = await asker.ask(inSession(kind.request, SESSION));
      withdrawn.withdraw();
      add(kind, "cancelled", withdrawn);
    }
    const nothingWaits = () => product.until<{ interactions: unknown[] }>("/api/interactions", (b) => b.interactions.length === 0);
    await nothingWaits();
    for (const kind of kinds) add(kind, "orphaned", await asker.ask(inSession(kind.request, SESSION)));
    // As many wait as one owner may have: what comes now is refused and shown to nobody.
    for (const kind of kinds) {
      const asked = await asker.ask(inSession(kind.request, SESSION));
      expect((await asked.answer()).message).toContain("refused and shown to nobody");
      add(kind, "invalid", asked);
    }
    for (const { asked, outcome, what } of all) {
      if (outcome !== "orphaned" && outcome !== "cancelled") expect((await asked.answer()).outcome, what).toBe(outcome);
    }
    await asker.silent();
    await nothingWaits();

    // The rest is read on its card in the other states' tests.
    for (const { kind, asked, outcome, what } of all.filter((a) => /clarify|dismissed|invalid/.test(a.outcome))) {
      await app.go(`i/${encodeURIComponent(asked.key)}`);
      await tells(app, asked, outcome, what);
      await app.card(asked).isOver();
      const said = says(kind)[outcome]?.message as string | undefined;
      if (said) await app.card(asked).reads(said);
    }
    await clean(page, "invalid");
    await app.go("history");
    const list = page.getByTestId("history");
    await expect(async () => {
      if (await list.getByTestId("history-more").isEnabled({ timeout: 100 }).catch(() => false)) await list.getByTestId("history-more").click();
      await expect(list).toContainText("That is all.", { timeout: 1000 });
    }).toPass();
    for (const { asked, outcome, what } of all) await tells(app, asked, outcome, `${what}, in the list`);
  });
});

test("what the agent made of a decision: it knows, acted, or could not, on every kind of card and in the list D1-18 B-49 B-79 invariant6", async ({ app, product, asker }) => {
  const { page } = app;
  const colleague = await product.colleague("Grace");
  const why = "the build server is down";
  const all: { kind: Kind; asked: Asked; stage: "delivered" | "refused" | "applied" }[] = [];
  for (const kind of kinds) {
    for (const stage of ["delivered", "refused", "applied"] as const) {
      const asked = await asker.ask(inSession(kind.request, SESSION), stage === "applied" ? {} : { stage, detail: stage === "refused" ? why : "" });
      await colleague.decide(asked.key, says(kind)[consent(kind) ? "allowed" : "answered"]!);
      await asked.answer();
      all.push({ kind, asked, stage });
    }
  }
  const check = async ({ kind, asked, stage }: (typeof all)[number]) => {
    const trail = page.getByTestId(`receipt-${asked.id}`).locator("[data-stage]");
    const what = `${kind.name} ${stage}`;
    await expect(trail.first(), what).toContainText("Delivered to the agent");
    await expect(trail, what).toHaveCount(stage === "delivered" ? 1 : 2);
    if (stage === "delivered") return;
    await expect(trail.nth(1), what).toHaveAttribute("data-stage", stage);
    const good = consent(kind) ? "Acted on" : "The agent has the answer";
    const bad = consent(kind) ? "Could not be acted on" : "Could not be told to the agent";
    await expect(trail.nth(1), what).toContainText(stage === "applied" ? good : bad);
    if (stage === "refused") await expect(trail.nth(1), what).toContainText(why);
  };
  for (const a of all.filter((x) => x.stage !== "applied")) {
    await app.go(`i/${encodeURIComponent(a.asked.key)}`);
    await check(a);
    if (a.stage === "refused" && /Bash|question/.test(a.kind.name)) await clean(page, `${a.kind.name} refused by the agent`);
  }
  await app.go("history");
  await expect(page.getByTestId("history")).toContainText("That is all.");
  for (const a of all) await check(a);
});
