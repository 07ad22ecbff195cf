// The gallery: the app over scripted frames, without a gateway. `npm run dev`
// serves it; nothing in here reaches the bundle.
import tailwindcss from "@tailwindcss/vite";
import { defaultClientConditions, defineConfig } from "vite";

export default defineConfig({
  root: "dev",
  publicDir: "../public",
  plugins: [tailwindcss()],
  resolve: { conditions: ["banksman-source", ...defaultClientConditions] },
  server: { host: "127.0.0.1" },
  preview: {
    host: "127.0.0.1",
    // What a gateway sends, except that the phone frame may embed.
    headers: { "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'" },
  },
  build: { modulePreload: { polyfill: false }, rolldownOptions: { input: { index: "dev/index.html", phone: "dev/phone.html" }, onLog: () => undefined } },
});
