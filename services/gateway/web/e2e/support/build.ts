import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { bin, root } from "./place.ts";

/** Builds what is tested, once for all tests; Go's cache makes the second time quick. */
export default function build(): void {
  mkdirSync(bin, { recursive: true });
  execFileSync("go", ["build", "-o", `${bin}/`, "./cmd/banksman", "./cmd/banksman/e2e/asker", "./cmd/banksman/e2e/model"], { cwd: root, stdio: "inherit" });
}
