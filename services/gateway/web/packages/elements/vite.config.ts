// One file with everything in it: any page loads it by <script type="module">.
import tailwindcss from "@tailwindcss/vite";
import { defaultClientConditions, defineConfig } from "vite";

export default defineConfig({
  plugins: [tailwindcss()],
  publicDir: false,
  resolve: { conditions: ["banksman-source", ...defaultClientConditions] },
  define: { "process.env.NODE_ENV": '"production"' },
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: false, // beside the app
    reportCompressedSize: false,
    modulePreload: false,
    rolldownOptions: {
      input: "packages/elements/src/index.ts",
      preserveEntrySignatures: "strict",
      output: { entryFileNames: "elements.js", format: "es", codeSplitting: false },
      onLog: (level, log, report) => { if (log.code !== "MODULE_LEVEL_DIRECTIVE") report(level, log); },
    },
  },
});
