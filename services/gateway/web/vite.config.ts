import tailwindcss from "@tailwindcss/vite";
import { defaultClientConditions } from "vite";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [tailwindcss()],
  // The packages of this workspace are used from their source.
  resolve: { conditions: ["banksman-source", ...defaultClientConditions] },
  build: {
    target: "es2022",
    sourcemap: false,
    // The page's policy allows neither inline scripts nor data: URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      // "use client" means nothing here.
      onLog: (level, log, report) => {
        if (log.code !== "MODULE_LEVEL_DIRECTIVE") report(level, log);
      },
    },
  },
  server: {
    host: "127.0.0.1",
    proxy: { "/api": { target: "http://127.0.0.1:8080", ws: true } },
  },
  test: {
    testTimeout: 60_000,
    projects: [
      {
        extends: true,
        test: { name: "app", environment: "jsdom", include: ["src/**/*.test.{ts,tsx}", "packages/elements/src/**/*.test.{ts,tsx}"], setupFiles: ["src/testing/setup.ts"] },
      },
      { extends: true, test: { name: "client", environment: "node", include: ["packages/client/{src,test}/**/*.test.ts"] } },
    ],
  },
});
