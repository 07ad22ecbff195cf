// Where things are.
import { accessSync, constants } from "node:fs";
import { delimiter, join, resolve } from "node:path";

/** The root of the work tree. */
export const root = resolve(import.meta.dirname, "../../../../..");
/** The programs under test, built from this tree. */
export const bin = join(root, ".cache/e2e-web");
/** Pictures, and what is left of tests that failed. */
export const artefacts = join(root, ".cache/browser");
/** What the runner recorded, for the summary of `make test`. */
export const record = join(root, ".cache/test/browser.json");

/** The proxy that ends TLS. */
export const caddy = join(root, ".cache/caddy/caddy");

/** Debian's Chromium, or Chrome where there is none. Nothing is ever downloaded. */
export function chromium(): string {
  for (const name of ["chromium", "google-chrome"]) {
    for (const dir of (process.env.PATH ?? "").split(delimiter)) {
      try {
        accessSync(join(dir, name), constants.X_OK);
        return join(dir, name);
      } catch {
        // not here
      }
    }
  }
  throw new Error("Chromium is missing: run make setup");
}
