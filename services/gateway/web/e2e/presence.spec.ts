// Whoever looks at a request need not be told of it elsewhere at once.
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PATIENCE } from "./support/process.ts";
import type { Product } from "./support/product.ts";
import { command, inSession } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";

const file = join(mkdtempSync(join(tmpdir(), "banksman-presence-")), "notify.yaml");
writeFileSync(file, "channels: [{name: log, type: log, after: 6s}]\n", { mode: 0o600 });
test.use({ flags: ["--notify", file] });

interface Delivery { state: string; held?: string }

/** What the notifier has done about a request, once it is so. */
async function delivery(product: Product, key: string, so: (d: Delivery) => boolean): Promise<Delivery> {
  const limit = Date.now() + PATIENCE;
  for (;;) {
    const p = product.command("notify", "explain", key, "--json");
    const code = await p.exit;
    const d = code === 0 ? (JSON.parse(p.lines.join("\n")) as { deliveries: Delivery[] | null }).deliveries?.[0] : undefined;
    if (d && so(d)) return d;
    if (Date.now() > limit) throw new Error(p.output());
  }
}

test("a page that is hidden lets the alert go out, one that somebody looks at keeps it back", async ({ app, product, asker }) => {
  const hide = (hidden: boolean) => app.page.evaluate((h) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => (h ? "hidden" : "visible") });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await hide(true);
  const unseen = await asker.ask(inSession(command("unseen"), SESSION));
  await app.card(unseen).isWhole();
  await delivery(product, unseen.key, (d) => d.state === "sent");

  await hide(false);
  const seen = await asker.ask(inSession(command("seen"), SESSION));
  await app.card(seen).root.scrollIntoViewIfNeeded();
  await app.page.mouse.move(400, 300);
  const d = await delivery(product, seen.key, (x) => !!x.held || x.state !== "planned");
  expect(d).toMatchObject({ state: "planned", held: "somebody has it before their eyes" });
  // Whoever leaves it alone after all is told.
  await app.go("settings");
  await delivery(product, seen.key, (x) => x.state === "sent");
});
