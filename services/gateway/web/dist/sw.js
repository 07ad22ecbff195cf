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
