// Notifications while no page is open: the page asks for them, the notifier sends them
// encrypted, and Chromium's own service worker shows and answers them. Only the push
// service between is a stand-in.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page, Worker } from "@playwright/test";
import { clean } from "./support/axe.ts";
import { type Pushed, PushService } from "./support/pushes.ts";
import { command, inSession } from "./support/requests.ts";
import { expect, SESSION, test as base } from "./support/test.ts";

const config = `
channels: [{name: browser, type: push, from: "mailto:ops@example.com", allow_private: true}]
recipients: [{name: me, user: owner, group: 0s, messages: 0, channels: [{channel: browser, decide: buttons}]}]
routes: [{name: all, remind: [], steps: [{to: [me]}]}]
`;

const test = base.extend<{ service: PushService }>({
  service: async ({}, use) => {
    const s = await PushService.start();
    await use(s);
    await s.end();
  },
  flags: async ({}, use) => {
    const dir = mkdtempSync(join(tmpdir(), "banksman-push-"));
    writeFileSync(join(dir, "notify.yaml"), config, { mode: 0o600 });
    await use(["--notify", join(dir, "notify.yaml")]);
    rmSync(dir, { recursive: true });
  },
  page: async ({ page, service }, use) => {
    await service.lend(page);
    await use(page);
  },
});

/** The browser's end of a push service: hands a push to the worker. */
async function receiver(page: Page): Promise<{ deliver: (p: Pushed) => Promise<void>; worker: Worker }> {
  const cdp = await page.context().newCDPSession(page);
  const known = new Promise<string>((done) => {
    cdp.on("ServiceWorker.workerRegistrationUpdated", (e) => {
      const r = e.registrations.find((x) => !x.isDeleted);
      if (r) done(r.registrationId);
    });
  });
  await cdp.send("ServiceWorker.enable");
  const registrationId = await known;
  await page.evaluate(() => navigator.serviceWorker.ready);
  await expect.poll(() => page.context().serviceWorkers().length).toBeGreaterThan(0);
  return {
    worker: page.context().serviceWorkers()[0]!,
    deliver: async (p) => void (await cdp.send("ServiceWorker.deliverPushMessage", { origin: new URL(page.url()).origin, registrationId, data: p.raw })),
  };
}

interface Note {
  tag: string;
  title: string;
  body: string;
  actions: string[];
  silent: boolean;
}

async function notes(page: Page): Promise<Note[]> {
  return await page.evaluate(async () => {
    const reg = await navigator.serviceWorker.ready;
    return (await reg.getNotifications()).map((n) => ({
      tag: n.tag, title: n.title, body: n.body, silent: n.silent ?? false,
      actions: (n as Notification & { actions: { action: string }[] }).actions.map((a) => a.action),
    }));
  });
}

/** Presses a button of the one notification there is; "" is the notification itself. */
async function press(worker: Worker, action: string): Promise<void> {
  await worker.evaluate(async (a) => {
    const sw = globalThis as unknown as { registration: ServiceWorkerRegistration; pressed: (n: Notification, a: string) => Promise<void> };
    const [n] = await sw.registration.getNotifications();
    n!.close();
    await sw.pressed(n!, a);
  }, action);
}

async function turnOn(page: Page): Promise<void> {
  const part = page.getByTestId("notify");
  await part.getByRole("button", { name: "Notify this browser" }).click();
  await expect(part).toHaveAttribute("data-state", "on");
  await expect(part).toContainText("(here)");
}

test("a notification is shown, decides once by its button, says who was first, and tells the end B-67 B-57", async ({ app, asker, service, product }) => {
  const { page } = app;
  await app.go("settings");
  await turnOn(page);
  await clean(page, "settings notify");
  const { deliver, worker } = await receiver(page);

  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  const first = await service.nth(1);
  expect(first.message).toMatchObject({ type: "opened", key: asked.key, actions: ["deny", "allow"] });
  expect(first.message.body).toContain("make deploy");
  expect(first.headers.topic).toBe(first.message.tag);
  expect(first.headers.authorization).toMatch(/^vapid t=/);
  await deliver(first);
  await expect.poll(() => notes(page)).toHaveLength(1);
  const [note] = await notes(page);
  expect(note).toMatchObject({ tag: first.message.tag, title: first.message.title, silent: false });
  expect(note!.actions.slice(0, 2)).toEqual(["deny", "allow"]);

  // Whatever fetches the address decides nothing.
  for (const method of ["GET", "HEAD"]) {
    const status = await page.evaluate(async ([m, t]) => (await fetch(`/api/push/decision?decision=allow&token=${t}`, { method: m! })).status, [method, first.message.token]);
    expect(status).toBe(405);
  }
  expect(asked.answered()).toBe(false);

  await press(worker, "allow");
  await expect.poll(async () => (await notes(page)).map((n) => n.title)).toEqual(["Approved by you"]);
  expect((await asked.answer()).outcome).toBe("allowed");

  // The same push once more, as somebody may have kept it: too late, and by whom.
  await deliver(first);
  await expect.poll(async () => (await notes(page)).map((n) => n.title)).toEqual([first.message.title]);
  await press(worker, "deny");
  await expect.poll(async () => (await notes(page)).map((n) => n.title)).toEqual([expect.stringMatching(/^Too late: approved by /)]);

  // The notifier tells the end; it takes the place of what was shown.
  const end = await service.nth(2);
  expect(end.message).toMatchObject({ type: "closed", tag: first.message.tag });
  await deliver(end);
  await expect.poll(async () => (await notes(page)).map((n) => [n.title.split(":")[0], n.silent, n.actions.includes("allow")])).toEqual([[expect.stringMatching(/^Approved by /), true, false]]);
  await page.evaluate(async () => (await (await navigator.serviceWorker.ready).getNotifications()).forEach((n) => n.close()));

  // What is grave has no button to approve, and a press of it leads to the request.
  const grave = await asker.ask(inSession({ ...command("x"), tool: { name: "Bash", input: { command: "rm -rf /srv/data" } } }, SESSION));
  const third = await service.nth(3);
  expect(third.message.actions).toEqual(["deny"]);
  expect(third.message.body).not.toContain("/srv/data");
  await deliver(third);
  await expect.poll(async () => (await notes(page)).flatMap((n) => n.actions)).toEqual(["deny", "review"]);
  await press(worker, "");
  await expect(page).toHaveURL(new RegExp(`#/i/${encodeURIComponent(grave.key)}$`));
  await app.card(grave).is("pending");
  expect(grave.answered()).toBe(false);

  // A browser that is gone is forgotten.
  service.status = 410;
  await app.go("settings");
  await asker.ask(inSession(command("again"), SESSION));
  await service.nth(4);
  await expect(async () => {
    await page.reload();
    await expect(page.getByTestId("notify").getByRole("button", { name: "Notify this browser" })).toBeVisible({ timeout: 5_000 });
  }).toPass();
  expect(product.output()).not.toContain(first.message.token!);
});

test("a device whose clock is wrong calls nothing over that is not, and says so of what is B-20", async ({ app, asker, service }) => {
  const { page } = app;
  await app.go("settings");
  await turnOn(page);
  const { deliver, worker } = await receiver(page);
  await asker.ask(inSession(command("deploy", { expires_in: "5m" }), SESSION));
  const first = await service.nth(1);
  await worker.evaluate(() => {
    const now = Date.now;
    Date.now = () => now() + 600_000;
  });
  await deliver(first);
  await expect.poll(() => notes(page)).toHaveLength(1);
  const [note] = await notes(page);
  expect(note).toMatchObject({ title: first.message.title, silent: false });
  expect(note!.actions.slice(0, 2)).toEqual(["deny", "allow"]);

  // What the server calls over as well.
  const old = { ...first.message, until: Date.now() - 60_000 };
  await deliver({ ...first, raw: JSON.stringify(old) });
  await expect.poll(async () => (await notes(page)).map((n) => [n.title, n.silent, n.actions])).toEqual([[`Too late: ${first.message.title}`, true, ["review"]]]);
});

test("a browser is asked for notifications only at a press, and says why it cannot", async ({ page, app }) => {
  await page.addInitScript(() => {
    (window as unknown as { asked: number }).asked = 0;
    Notification.requestPermission = () => {
      (window as unknown as { asked: number }).asked++;
      return Promise.resolve("granted" as NotificationPermission);
    };
  });
  await page.reload();
  await app.go("settings");
  const part = page.getByTestId("notify");
  await expect(part).toHaveAttribute("data-state", "off");
  expect(await page.evaluate(() => (window as unknown as { asked: number }).asked)).toBe(0);
  await turnOn(page);
  expect(await page.evaluate(() => (window as unknown as { asked: number }).asked)).toBe(1);
  await part.getByRole("button", { name: "Do not notify this browser" }).click();
  await expect(part).toHaveAttribute("data-state", "off");
  await expect(part).not.toContainText("(here)");
  await page.addInitScript(() => Object.defineProperty(Notification, "permission", { get: () => "denied" }));
  await page.reload();
  await expect(part.getByTestId("notify-why")).toContainText("blocked in the browser");
  await expect(part.getByRole("button", { name: "Notify this browser" })).toHaveCount(0);
});

test("a browser whose subscription has changed is told at the new one", async ({ app, asker, service }) => {
  const { page } = app;
  await app.go("settings");
  await turnOn(page);
  const { worker } = await receiver(page);
  await asker.ask(inSession(command("deploy"), SESSION));
  expect((await service.nth(1)).path).toBe("/push");
  // No push service is there to change it, so the event is fired in the worker itself, and
  // the worker's subscribing is lent as the page's is.
  await worker.evaluate(async ({ endpoint, keys }) => {
    const sw = globalThis as unknown as { dispatchEvent: (e: Event) => void; ExtendableEvent: new (type: string) => Event & { waitUntil: (p: Promise<unknown>) => void } };
    PushManager.prototype.subscribe = () => Promise.resolve({ endpoint, toJSON: () => ({ endpoint, keys }) } as unknown as PushSubscription);
    const done: Promise<unknown>[] = [];
    const e = new sw.ExtendableEvent("pushsubscriptionchange");
    e.waitUntil = (p) => void done.push(p);
    sw.dispatchEvent(e);
    await Promise.all(done);
  }, { endpoint: `${service.endpoint}/new`, keys: service.keys });
  await asker.ask(inSession(command("again"), SESSION));
  expect((await service.nth(2)).path).toBe("/push/new");
});
