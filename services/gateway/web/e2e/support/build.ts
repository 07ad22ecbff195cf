import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { clear } from "./pictures.ts";
import { bin, root } from "./place.ts";

/** Builds what is tested, once for all tests; Go's cache makes the second time quick. */
export default function build(): void {
  clear();
  mkdirSync(bin, { recursive: true });
  execFileSync("go", ["build", "-o", `${bin}/`, "./cmd/banksman", "./cmd/banksman/e2e/asker", "./cmd/banksman/e2e/model", "./services/gateway/cmd/banksman-gateway", "./services/gateway/internal/issuer/issuertest/issuer", "./services/agent/cmd/banksman-agent", "github.com/nats-io/nats-server/v2"], { cwd: root, stdio: "inherit" });
}
