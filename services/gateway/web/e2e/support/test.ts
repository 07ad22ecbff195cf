// A test gets a product of its own and a browser that is signed in to it.
import { type Page, test as base } from "@playwright/test";
import type { Asker } from "./asker.ts";
import type { Step } from "./model.ts";
import { Product } from "./product.ts";
import { App } from "./ui.ts";

export { expect } from "@playwright/test";

interface Options {
  /** More flags of `banksman up`. */
  flags: string[];
  /** What the model says to Claude Code. No bare list: Playwright takes that for something else. */
  script: { steps: Step[] };
}

interface Fixtures {
  product: Product;
  /** The first tab, signed in, at the inbox. */
  app: App;
  /** A worker with the session "release", which is called Release 2.4. */
  asker: Asker;
}

export const SESSION = "release";

/** Gathers what goes wrong in the pages of a browser: it is a fault, also where nobody looks. */
export function faults(page: Page): string[] {
  const wrong: string[] = [];
  page.context().on("weberror", (e) => wrong.push(String(e.error())));
  page.context().on("console", (m) => {
    if (/Content Security Policy|Minified React error|Uncaught/.test(m.text())) wrong.push(m.text());
  });
  return wrong;
}

export const test = base.extend<Options & Fixtures>({
  flags: [[], { option: true }],
  script: [{ steps: [] }, { option: true }],
  product: async ({ flags, script }, use, info) => {
    const product = await Product.start(flags, script.steps);
    await use(product);
    if (product.model && info.status === info.expectedStatus && product.model.faults().length > 0) throw new Error(`the model was asked something else: ${product.model.faults().join("\n")}`);
    const failed = info.status !== info.expectedStatus;
    if (failed) await info.attach("output of the product", { body: product.output(), contentType: "text/plain" });
    await product.end();
  },
  app: async ({ page, product }, use, info) => {
    const wrong = faults(page);
    const app = new App(page, product);
    await app.signIn();
    await use(app);
    if (wrong.length > 0 && info.status === info.expectedStatus) throw new Error(`in the page: ${wrong.join("\n")}`);
  },
  asker: async ({ product }, use) => {
    const asker = await product.asker();
    await asker.session(SESSION, "Release 2.4");
    await use(asker);
  },
});
