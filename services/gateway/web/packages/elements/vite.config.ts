// One file with everything in it: any page loads it by <script type="module">.
import tailwindcss from "@tailwindcss/vite";
import { defaultClientConditions, defineConfig, type Plugin } from "vite";

// What draws nothing in another page: rules are made, others who may answer are named,
// and an empty inbox explains itself in the gateway's own page only.
const appOnly: Plugin = {
  name: "app-only",
  enforce: "pre",
  resolveId: (source) => (/\/(rules\/Always|Empty|Others)$/.test(source) ? `\0app-only:${source.split("/").at(-1)}` : undefined),
  load: (id) => (id.startsWith("\0app-only:") ? `export function ${id.split(":")[1]}() { return null; }` : undefined),
};

export default defineConfig({
  plugins: [appOnly, tailwindcss()],
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
