// What axe-core finds, in every look that people have the page in.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { expect, type Page } from "@playwright/test";
import type { AxeResults } from "axe-core";
import { artefacts } from "./place.ts";

const source = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const wide = { width: 1280, height: 800 };
const phone = { width: 390, height: 844 };

export const looks = [
  { name: "wide-light", size: wide, colours: "light" },
  { name: "wide-dark", size: wide, colours: "dark" },
  { name: "phone-dark", size: phone, colours: "dark" },
  { name: "phone-light", size: phone, colours: "light" },
] as const;

export interface Check {
  /** Called before each look and after it: throws where the state is not the one that is meant. */
  still?: () => Promise<void>;
  /** Gets the state back, where it does not last. */
  again?: () => Promise<void>;
  /** Keeps a picture of each look; otherwise of the first and of a dark phone. */
  pictures?: boolean;
}

/** Fails where axe finds anything in one of the looks. Ends in the first one. */
export async function clean(page: Page, what: string, check: Check = {}): Promise<void> {
  const found: string[] = [];
  for (const look of looks) {
    await page.setViewportSize(look.size);
    await page.emulateMedia({ colorScheme: look.colours });
    await settled(page);
    for (let attempt = 0; ; attempt++) {
      try {
        await check.still?.();
        const seen = await run(page);
        await check.still?.();
        found.push(...seen.map((s) => `${look.name}: ${s}`));
        break;
      } catch (e) {
        if (!check.again || attempt === 3) throw e;
        await check.again();
      }
    }
    if (check.pictures || look === looks[0] || look.name === "phone-dark") await page.screenshot({ path: join(artefacts, `${what.replaceAll(/[^\w]+/g, "-")}-${look.name}.png`) });
  }
  await page.setViewportSize(looks[0].size);
  await page.emulateMedia({ colorScheme: looks[0].colours });
  await settled(page);
  expect.soft(found, `axe, ${what}`).toEqual([]);
}

/** Until what moves has come to rest and is drawn. */
export async function settled(page: Page): Promise<void> {
  await page.evaluate(async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    await frame();
    await Promise.allSettled(document.getAnimations().filter((a) => a.effect?.getComputedTiming().iterations !== Infinity).map((a) => a.finished));
    await frame();
  });
}

async function run(page: Page): Promise<string[]> {
  // DevTools evaluates past the page's policy, which lets nothing foreign in.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(source);
  return await page.evaluate(async () => {
    const axe = (window as unknown as { axe: { run: (where: Document, o: object) => Promise<AxeResults> } }).axe;
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.flatMap((v) => v.nodes.map((n) => `${v.id} (${v.help}) at ${n.target.join(" ")}: ${n.html.slice(0, 200)} ${n.failureSummary ?? ""}`));
  });
}
