// An authenticator of Chromium's own, in software: it makes real passkeys and signs
// with them, and says at once that its person is there.
import type { Page } from "@playwright/test";

/** Plugs one in; it stays as long as the page. */
export async function authenticator(page: Page): Promise<void> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
}
