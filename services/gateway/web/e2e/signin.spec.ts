// A company's own account, over TLS: one signs in at the issuer, is who it says, and
// signs out; and what the browser keeps of it.
import { test as base } from "@playwright/test";
import { clean } from "./support/axe.ts";
import { command, inSession } from "./support/requests.ts";
import { Secure } from "./support/secure.ts";
import { expect, faults, SESSION } from "./support/test.ts";
import { App } from "./support/ui.ts";

const test = base.extend<{ secure: Secure }>({
  secure: async ({}, use, info) => {
    const secure = await Secure.start({
      olga: { sub: "u1", name: "Olga Ops", groups: ["staff", "ops"] },
      stranger: { sub: "u2", name: "Stan Stranger", groups: ["staff"] },
    });
    await use(secure);
    if (info.status !== info.expectedStatus) await info.attach("output of the product", { body: secure.output(), contentType: "text/plain" });
    await secure.end();
  },
});

test("one signs in by an issuer over TLS, decides under one's own name, signs out and in again, and no script has the session", async ({ secure }) => {
  const { team } = secure;
  const asker = await team.asker();
  await asker.session(SESSION, "Release 2.4");
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const context = await secure.browser.newContext({ locale: "en-GB", timezoneId: "UTC", reducedMotion: "reduce" });
  const page = await context.newPage();
  const wrong = faults(page);
  const app = new App(page, team);
  const session = async () => (await context.cookies(team.url)).find((c) => c.name === "__Host-banksman");
  const enter = async (who: string) => {
    await page.getByRole("button", { name: "Sign in with Acme" }).click();
    await expect(page.getByRole("heading", { name: "Who are you?" })).toBeVisible();
    await page.getByRole("link", { name: `Go on as ${who}` }).click();
  };

  // Whoever opens the link of an alert first gets to the sign-in, and then to the request.
  await page.goto(`${team.url}/#/i/${encodeURIComponent(asked.key)}`);
  await page.getByRole("link", { name: /your company’s account|your company's account/ }).click();
  await clean(page, "sign in", { pictures: true });
  await enter("stranger");
  await expect(page.getByText("none of your groups has a role here")).toBeVisible();
  expect(await session()).toBeUndefined();

  await page.goto(`${team.url}/signin.html`);
  await enter("olga");
  await expect(app.connection).toHaveText(/Connected/);
  await expect(page.getByTestId("principal")).toHaveText("Olga Ops");
  const first = await session();
  expect(first).toMatchObject({ secure: true, httpOnly: true, sameSite: "Strict", path: "/", domain: "banksman.example" });
  expect(first!.expires).toBeGreaterThan(Date.now() / 1000);
  // Where scripts can read, the session is not.
  const readable = await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage }));
  expect(readable).not.toContain(first!.value);
  expect(page.url()).not.toMatch(/code=|state=/);

  const card = app.card(asked);
  await card.isWhole();
  await card.approve.click();
  await card.is("confirmed");
  expect((await asked.answer()).outcome).toBe("allowed");
  expect((await team.interaction(asked.key)).decision?.principal).toMatchObject({ kind: "person", name: "Olga Ops" });

  // From now on the browser comes over TLS only, whatever somebody types.
  const typed = await context.newPage();
  await typed.goto(team.url.replace("https:", "http:"));
  expect(typed.url()).toMatch(/^https:/);
  await typed.close();

  await page.getByRole("button", { name: "Sign out here" }).click();
  await expect(page.getByTestId("login-needed")).toBeVisible();
  expect(await session()).toBeUndefined();
  // The old cookie is worth nothing, put back as it was.
  await context.addCookies([{ ...first!, expires: -1 }]);
  expect(await page.evaluate(async () => (await fetch("/api/me")).status)).toBe(401);
  await context.clearCookies();

  await page.goto(`${team.url}/signin.html`);
  await enter("olga");
  await expect(app.connection).toHaveText(/Connected/);
  await expect(page.getByTestId("principal")).toHaveText("Olga Ops");
  expect((await session())!.value).not.toBe(first!.value);
  expect(wrong).toEqual([]);
});
