// Notifications of this browser while no page is open. The browser is asked for them
// only when a person presses for it; the server is told where they go.
import { Gateway, type PushBrowsers } from "@banksman/client";
import { keepSetting, setting } from "./settings";

export type PushState = "insecure" | "unsupported" | "blocked" | "off" | "on";

type Call = Pick<Gateway, "call">;

/** Where the service worker finds what it needs to renew a subscription; the secret is told nobody else. */
const NOTES = "banksman-notes-1";

const CHOICE = "push"; // the person for whom this browser is to be told

/** Why this browser cannot be told, or whether it is. */
export async function pushState(): Promise<PushState> {
  if (!window.isSecureContext) return "insecure";
  if (!("serviceWorker" in navigator) || !("PushManager" in window) || !("Notification" in window)) return "unsupported";
  if (Notification.permission === "denied") return "blocked";
  const reg = await navigator.serviceWorker.getRegistration();
  return (await reg?.pushManager.getSubscription()) ? "on" : "off";
}

/** Asks for permission, subscribes, and tells the server. */
export async function turnOn(api: Call, person: string, key: string): Promise<PushBrowsers> {
  if ((await Notification.requestPermission()) !== "granted") throw new Error("The browser was not allowed to show notifications.");
  const reg = await navigator.serviceWorker.ready;
  const applicationServerKey = bytes(key);
  let sub = await reg.pushManager.getSubscription();
  if (sub && (setting(CHOICE) !== person || !same(sub.options.applicationServerKey, applicationServerKey))) {
    await forget(sub); // it may tell somebody else, or was made for another installation's key
    sub = null;
  }
  sub ??= await reg.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
  const list = await tell(api, sub);
  await note(person, key, list.renewal ?? "");
  keepSetting(CHOICE, person);
  return list;
}

export async function turnOff(api: Call, id: string | undefined): Promise<void> {
  keepSetting(CHOICE, "");
  const reg = await navigator.serviceWorker.getRegistration();
  await forget(await reg?.pushManager.getSubscription());
  if (id !== undefined) await api.call("DELETE", `/api/push/${encodeURIComponent(id)}`);
}

/** Ends a subscription: whoever it told is told here no more. */
async function forget(sub: PushSubscription | null | undefined): Promise<void> {
  await sub?.unsubscribe();
  await caches.delete(NOTES);
}

/**
 * Has this browser belong to the sign-in that is open now, where it was told before;
 * where somebody else has signed in, it is told nothing more.
 */
export async function again(api: Call): Promise<void> {
  const person = setting(CHOICE);
  if (person === "" || (await pushState()) !== "on" || Notification.permission !== "granted") return;
  const me = await api.call<{ principal: { id: string } }>("GET", "/api/me");
  if (me.principal.id !== person) {
    keepSetting(CHOICE, "");
    const reg = await navigator.serviceWorker.getRegistration();
    return forget(await reg?.pushManager.getSubscription());
  }
  const { public_key } = await api.call<PushBrowsers>("GET", "/api/push");
  if (public_key) await turnOn(api, person, public_key);
}

/** This browser's own entry in the list. */
export async function own(): Promise<string | undefined> {
  const sub = await (await navigator.serviceWorker.getRegistration())?.pushManager.getSubscription();
  if (!sub) return undefined;
  const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(sub.endpoint));
  return [...new Uint8Array(sum)].map((b) => b.toString(16).padStart(2, "0")).join("").slice(0, 24);
}

function tell(api: Call, sub: PushSubscription): Promise<PushBrowsers> {
  const { endpoint, keys } = sub.toJSON();
  return api.call("POST", "/api/push", { body: { endpoint, keys: { p256dh: keys?.p256dh, auth: keys?.auth } } });
}

async function note(user: string, key: string, renewal: string): Promise<void> {
  const cache = await caches.open(NOTES);
  await cache.put("/note", new Response(JSON.stringify({ user, key, renewal })));
}

function bytes(base64url: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64url.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
}

function same(a: ArrayBuffer | null, b: Uint8Array): boolean {
  const x = new Uint8Array(a ?? new ArrayBuffer(0));
  return x.length === b.length && x.every((v, i) => v === b[i]);
}
