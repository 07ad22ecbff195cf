// Keeps the page itself, so that it opens without its server and says that it is
// offline. What the server tells (/api) is never touched and never kept.
const CACHE = "banksman-shell-1";
const PATIENCE = 4000; // ms for the page from the server, where one is kept

self.addEventListener("install", (e) => {
  e.waitUntil(fetchShell().then(() => self.skipWaiting()));
});

self.addEventListener("activate", (e) => {
  e.waitUntil(
    caches
      .keys()
      .then((names) => Promise.all(names.filter((n) => n.startsWith("banksman-shell-") && n !== CACHE).map((n) => caches.delete(n))))
      .then(() => self.clients.claim()),
  );
});

self.addEventListener("fetch", (e) => {
  const url = new URL(e.request.url);
  if (e.request.method !== "GET" || url.origin !== self.location.origin) return;
  if (e.request.mode === "navigate" && url.pathname === "/") e.respondWith(page(e));
  else if (isFile(url.pathname)) e.respondWith(file(e.request, url.pathname));
});

// Names with a hash in them, and the icons.
function isFile(path) {
  return path.startsWith("/assets/") || /^\/(favicon|icon)[\w-]*\.(svg|png)$/.test(path) || path === "/manifest.webmanifest";
}

// The server's page, whenever it can be had: what is kept is for when it cannot.
async function page(e) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match("/");
  const fresh = fetch(e.request).then((res) => {
    if (res.ok && !res.redirected) e.waitUntil(keep(res.clone()));
    return res;
  });
  if (!kept) return fresh;
  const late = new Promise((resolve) => setTimeout(resolve, PATIENCE, kept));
  return Promise.race([fresh.catch(() => kept), late]);
}

async function file(request, path) {
  const cache = await caches.open(CACHE);
  // A name with a hash is one content for ever; the others are asked for first.
  const hashed = path.startsWith("/assets/");
  const kept = await cache.match(request, { ignoreVary: true });
  if (hashed && kept) return kept;
  try {
    const res = await fetch(request);
    if (res.ok && res.type === "basic") await cache.put(request, res.clone());
    return res;
  } catch (err) {
    if (kept) return kept;
    throw err;
  }
}

async function fetchShell() {
  const res = await fetch("/", { cache: "reload" });
  if (!res.ok) throw new Error(`the page: ${res.status}`);
  await keep(res);
}

// Keeps a page with the files it begins with, and lets go of those of others.
async function keep(res) {
  const cache = await caches.open(CACHE);
  const html = await res.clone().text();
  const files = [...new Set([...html.matchAll(/(?:src|href)="(\/[^"#?]+)"/g)].map((m) => m[1]).filter(isFile))];
  const have = await cache.match("/");
  if (have && (await have.text()) === html) return;
  await Promise.all(files.map(async (f) => (await cache.match(f)) || cache.add(f)));
  await cache.put("/", res);
  for (const request of await cache.keys()) {
    const path = new URL(request.url).pathname;
    if (path.startsWith("/assets/") && !files.includes(path)) await cache.delete(request);
  }
}

// ---- Notifications. What is shown comes from the notifier, encrypted for this browser;
// where a press leads and what it decides is fixed here.

const NOTES = "banksman-notes-1"; // by what this browser renews its subscription
const NAMES = { allow: "Approve", deny: "Deny" };
const WINDOW = 30_000; // ms for the server's word
const CLOCK = 3000; // ms for the server's time

self.addEventListener("push", (e) => e.waitUntil(told(e.data)));
self.addEventListener("notificationclick", (e) => {
  e.notification.close();
  e.waitUntil(pressed(e.notification, e.action));
});
self.addEventListener("pushsubscriptionchange", (e) => e.waitUntil(renew()));

async function told(data) {
  let m;
  try {
    m = data.json();
  } catch {
    m = {};
  }
  if (m.v !== 1 || typeof m.title !== "string" || typeof m.tag !== "string") {
    m = { type: "test", tag: "unknown", title: "Something waits in Banksman", body: "Its message could not be read." };
  }
  const over = m.type === "closed";
  const late = await isOver(m.until);
  const actions = !over && !late && typeof m.token === "string" ? (m.actions ?? []).filter((a) => a in NAMES).map((a) => ({ action: a, title: NAMES[a] })) : [];
  if (!over && m.type !== "test" && m.key) actions.push({ action: "review", title: "Review" });
  await show(m.tag, late ? `Too late: ${m.title}` : m.title, m.body ?? "", {
    actions,
    silent: over || late,
    renotify: m.type === "reminder",
    requireInteraction: !over && !late && (m.risk === "high" || m.risk === "critical"),
    data: { key: m.key ?? "", token: m.token ?? "", title: m.title, over },
  });
}

// The clock of a device may be wrong: what it takes for over, only the server's
// makes so. Where the server cannot be asked, a press is told.
async function isOver(until) {
  if (typeof until !== "number" || until > Date.now()) return false;
  try {
    const res = await fetch("/healthz", { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(CLOCK) });
    return until <= Date.parse(res.headers.get("Date") ?? "");
  } catch {
    return false;
  }
}

function show(tag, title, body, more) {
  return self.registration.showNotification(title, { tag, body, icon: "/icon-192.png", badge: "/icon-192.png", ...more });
}

// A button decides by the token of its notification, once; everything else leads to
// the page.
async function pressed(note, action) {
  const { key, token, title } = note.data ?? {};
  if (!(action in NAMES) || !token) return open(key ?? "");
  const tell = (head, body) => show(note.tag, head, body, { silent: true, actions: key ? [{ action: "review", title: "Review" }] : [], data: { key, token: "", title, over: true } });
  try {
    const res = await fetch("/api/push/decision", {
      method: "POST", credentials: "omit", cache: "no-store", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token, decision: action }), signal: AbortSignal.timeout(WINDOW),
    });
    const rec = await res.json();
    await tell(...words(rec, action, title));
  } catch {
    await tell("Not known whether it was decided", `The server did not answer. Review it: ${title}`);
  }
}

// What a receipt says, in a head and a line.
function words(rec, action, title) {
  const d = rec.decision;
  const who = d?.principal ? d.principal.name || d.principal.id : "";
  const at = d?.decided_at ? new Date(d.decided_at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : "";
  const how = { allowed: "approved", denied: "denied", answered: "answered", expired: "expired", cancelled: "withdrawn" }[d?.outcome] ?? "settled";
  switch (rec.status ?? rec.code) {
    case "accepted":
    case "duplicate":
      return [action === "allow" ? "Approved by you" : "Denied by you", [at, title].filter(Boolean).join(", ")];
    case "already_decided":
      return [`Too late: ${how}${who ? ` by ${who}` : ""}`, [at, title].filter(Boolean).join(", ")];
    case "expired":
      return ["Too late: its time was over", title];
  }
  return ["Nothing was decided", `${rec.error ?? "It was refused"}. ${title}`];
}

// The page of a request, in a tab that is open where there is one.
async function open(key) {
  const hash = key ? `#/i/${encodeURIComponent(key)}` : "#/";
  const tabs = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const tab = tabs.find((t) => t.visibilityState === "visible") ?? tabs[0];
  if (!tab) return self.clients.openWindow(`/${hash}`);
  tab.postMessage({ type: "open", hash });
  return tab.focus().catch(() => undefined); // it has the request on its screen all the same
}

// The push service has given this browser another address: the server is told with the
// secret that it gave this browser, as a worker has no session.
async function renew() {
  const cache = await caches.open(NOTES);
  const kept = await (await cache.match("/note"))?.json();
  if (!kept?.user || !kept.renewal) return; // the page says it anew when it is opened
  const sub = await self.registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: kept.key });
  const { endpoint, keys } = sub.toJSON();
  await fetch("/api/push/renewal", {
    method: "POST", credentials: "omit", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ user: kept.user, renewal: kept.renewal, new: { endpoint, keys: { p256dh: keys.p256dh, auth: keys.auth } } }),
  });
}
