import { defineConfig } from "@playwright/test";
import { artefacts, chromium, record } from "./support/place.ts";

// One worker a processor: each has a product, an asker and a browser of its own.
export default defineConfig({
  testDir: ".",
  globalSetup: "./support/build.ts",
  globalTeardown: "./support/pictures.ts",
  outputDir: `${artefacts}/failed`,
  preserveOutput: "failures-only",
  workers: 2,
  fullyParallel: true,
  forbidOnly: !!process.env.CI,
  retries: Number(process.env.RERUN ?? 0),
  timeout: 240_000,
  expect: { timeout: 30_000 },
  reporter: [["list"], ["json", { outputFile: record }]],
  use: {
    actionTimeout: 30_000,
    navigationTimeout: 30_000,
    browserName: "chromium",
    locale: "en-GB",
    timezoneId: "UTC",
    viewport: { width: 1280, height: 800 },
    colorScheme: "light",
    contextOptions: { reducedMotion: "reduce" },
    screenshot: "only-on-failure",
    trace: "off",
    launchOptions: {
      executablePath: chromium(),
      args: ["--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    },
  },
});
