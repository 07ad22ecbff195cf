// Builds the example pages of docs/examples/embed that need a build. Their
// packages are those of this workspace.
import vue from "@vitejs/plugin-vue";
import { fileURLToPath } from "node:url";
import { defaultClientConditions, defineConfig } from "vite";

const examples = fileURLToPath(new URL("../../../../../docs/examples/embed/", import.meta.url));
const modules = fileURLToPath(new URL("../../node_modules/", import.meta.url));

export default defineConfig({
  root: examples,
  base: "./",
  plugins: [vue({ template: { compilerOptions: { isCustomElement: (tag) => tag.startsWith("banksman-") } } })],
  resolve: {
    conditions: ["banksman-source", ...defaultClientConditions],
    alias: [{ find: /^(react|react-dom|vue|@banksman\/client)($|\/)/, replacement: `${modules}$1$2` }],
  },
  build: {
    target: "es2022",
    outDir: process.env.EXAMPLES_OUT ?? fileURLToPath(new URL("dist", import.meta.url)),
    emptyOutDir: true,
    reportCompressedSize: false,
    modulePreload: { polyfill: false },
    rolldownOptions: { input: { react: `${examples}react/index.html`, vue: `${examples}vue/index.html` } },
  },
});
