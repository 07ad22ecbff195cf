// The product as a company has it: gateways behind a proxy that ends TLS, under a
// name of their own, and an issuer (OpenID Connect) by which people sign in. Name and
// certificate count for one browser alone, which was told of them at its start.
import { createHash, X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium as engine } from "@playwright/test";
import { caddy, chromium } from "./place.ts";
import { Process } from "./process.ts";
import { HOST } from "./site.ts";
import { freePort, Team } from "./team.ts";

const NAME = "banksman.example";

/** Who can sign in at the issuer, each with what it says of them. */
export type People = Record<string, { sub: string; name: string; groups: string[] }>;

export class Secure {
  private constructor(readonly team: Team, readonly browser: Browser, private readonly parts: Process[], private readonly home: string) {}

  /** The group ops approves everything; no other group has a role. */
  static async start(people: People): Promise<Secure> {
    const home = mkdtempSync(join(tmpdir(), "banksman-secure-"));
    const env = { PATH: process.env.PATH ?? "", HOME: home, XDG_DATA_HOME: home, XDG_CONFIG_HOME: home };
    const port = await freePort();
    const base = `https://${NAME}:${port}`;
    const issuer = new Process("issuer", ["-redirect", `${base}/signin.html`, "-people", JSON.stringify(people)], env);
    const secret = join(home, "secret");
    writeFileSync(secret, "s3cret", { mode: 0o600 });
    const team = await Team.start({ base, flags: [
      "--oidc-issuer", (await issuer.line(/^http:\/\/\S+$/))[0], "--oidc-name", "Acme", "--oidc-client-id", "banksman", "--oidc-secret-file", secret,
      "--oidc-role", "ops=approver:*", "--trusted-proxy", HOST,
    ] });
    const config = join(home, "Caddyfile");
    writeFileSync(config, `{
	admin off
	auto_https disable_redirects
	skip_install_trust
	servers {
		protocols h1 h2
	}
}
${base} {
	bind ${HOST}
	tls internal
	reverse_proxy ${HOST}:${team.line.port} {
		flush_interval -1
	}
}
`);
    const proxy = new Process(caddy, ["run", "--config", config, "--adapter", "caddyfile"], env);
    await proxy.line(/serving initial configuration/);
    const authority = new X509Certificate(readFileSync(join(home, "caddy/pki/authorities/local/intermediate.crt")));
    const trusted = createHash("sha256").update(authority.publicKey.export({ type: "spki", format: "der" })).digest("base64");
    const browser = await engine.launch({
      executablePath: chromium(),
      args: ["--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync", `--ignore-certificate-errors-spki-list=${trusted}`, `--host-resolver-rules=MAP ${NAME} ${HOST}`],
    });
    return new Secure(team, browser, [issuer, proxy], home);
  }

  output(): string {
    return [this.team.output(), ...this.parts.map((p) => p.output())].join("\n--\n");
  }

  async end(): Promise<void> {
    await this.browser.close();
    for (const p of this.parts) await p.kill();
    await this.team.end();
    rmSync(this.home, { recursive: true, force: true });
  }
}
