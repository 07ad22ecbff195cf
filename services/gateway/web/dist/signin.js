// Signing in by a passkey, an invitation or an issuer, and proving that one is
// there. It stands apart from the app so that the app needs none of it.
const SESSION = "banksman.session"; // where the app looks for its token
const ASKED = "banksman.oidc"; // what this tab asked the issuer
const PROBE = "banksman.room";

const $ = (id) => document.getElementById(id);
const fragment = new URLSearchParams(location.hash.slice(1));
const query = new URLSearchParams(location.search);
// What works once must stay in no history.
history.replaceState(null, "", location.pathname);

function session() {
  try {
    return JSON.parse(localStorage.getItem(SESSION) ?? "{}").token ?? "";
  } catch {
    return "";
  }
}

async function call(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  if (session()) headers.Authorization = `Bearer ${session()}`;
  const res = await fetch(path, {
    method,
    headers,
    body: method === "GET" ? undefined : JSON.stringify(body ?? {}),
    credentials: "same-origin",
    cache: "no-store",
  });
  const out = await res.json().catch(() => ({}));
  if (!res.ok) throw new Error(typeof out.error === "string" ? out.error : `The server answered ${res.status}.`);
  return out;
}

const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const text = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const named = (list) => list?.map((c) => ({ ...c, id: bytes(c.id) }));

async function create({ publicKey: o }) {
  const c = await navigator.credentials.create({
    publicKey: {
      ...o,
      challenge: bytes(o.challenge),
      user: { ...o.user, id: bytes(o.user.id) },
      excludeCredentials: named(o.excludeCredentials),
    },
  });
  return {
    id: c.id,
    rawId: text(c.rawId),
    type: c.type,
    response: {
      attestationObject: text(c.response.attestationObject),
      clientDataJSON: text(c.response.clientDataJSON),
      transports: c.response.getTransports?.() ?? [],
    },
  };
}

async function get({ publicKey: o }) {
  const c = await navigator.credentials.get({
    publicKey: { ...o, challenge: bytes(o.challenge), allowCredentials: named(o.allowCredentials) },
  });
  const r = c.response;
  return {
    id: c.id,
    rawId: text(c.rawId),
    type: c.type,
    response: {
      authenticatorData: text(r.authenticatorData),
      clientDataJSON: text(r.clientDataJSON),
      signature: text(r.signature),
      userHandle: r.userHandle ? text(r.userHandle) : undefined,
    },
  };
}

async function ceremony(path, use, more = {}) {
  const { ceremony, options } = await call("POST", `${path}/begin`, more);
  return call("POST", `${path}/finish`, { ceremony, credential: await use(options), ...more });
}

// Before anything is used up: a storage that is full, or shut, would lose what it brings.
function room() {
  try {
    localStorage.setItem(PROBE, "x".repeat(1000));
    localStorage.removeItem(PROBE);
  } catch {
    throw new Error("This browser has no room to keep you signed in. Make some for this site, then try again: nothing was used up.");
  }
}

function enter(out) {
  try {
    localStorage.setItem(SESSION, JSON.stringify({ token: out.token, expires_at: out.expires_at }));
  } catch {
    throw new Error("You were let in, but this browser had no room to keep it. Make some for this site, then sign in again.");
  }
  location.replace(`/${place()}`);
}

// Where somebody wanted to go before signing in; the app notes it.
function place() {
  try {
    const kept = JSON.parse(localStorage.getItem("banksman.after") ?? "{}");
    localStorage.removeItem("banksman.after");
    return typeof kept.hash === "string" && kept.hash.startsWith("#/") && Date.now() - kept.at < 15 * 60_000 ? kept.hash : "";
  } catch {
    return "";
  }
}

function say(title, words) {
  $("title").textContent = title;
  $("words").textContent = words;
}

function failed(e) {
  // The browser's own words for a person who changed their mind say nothing.
  $("problem").textContent = e.name === "NotAllowedError" ? "That did not happen. You can try again." : e.message;
}

function way(words, act) {
  const b = document.createElement("button");
  b.type = "button";
  b.textContent = words;
  b.addEventListener("click", async () => {
    $("problem").textContent = "";
    b.disabled = true;
    try {
      await act();
    } catch (e) {
      failed(e);
    }
    b.disabled = false;
  });
  $("ways").append(b);
}

function back() {
  const a = document.createElement("a");
  a.className = "button";
  const to = place();
  a.href = `/${to}`;
  a.textContent = to === "" ? "Back to the inbox" : "Back to the request";
  $("ways").replaceChildren(a);
  a.focus();
}

async function backFromIssuer() {
  const asked = sessionStorage.getItem(ASKED);
  sessionStorage.removeItem(ASKED);
  if (!asked) throw new Error("This tab did not ask to sign in. Begin again.");
  // Anybody can make a link with words of theirs in it.
  if (query.has("error")) throw new Error(query.get("error") === "access_denied" ? "The issuer did not let you in." : "The issuer did not sign you in. Begin again.");
  room();
  enter(await call("POST", "/api/sign-in/oidc/finish", { ceremony: asked, state: query.get("state"), code: query.get("code") }));
}

async function main() {
  const invite = fragment.get("invite");
  if (invite) {
    say("Welcome to Banksman", "Register a passkey of this device or of your key ring. From then on it signs you in.");
    way("Register a passkey", async () => {
      room();
      enter(await ceremony("/api/sign-in/invite", create, { invite }));
    });
    return;
  }
  if (fragment.has("proof")) {
    say("Confirm that it is you", "A critical request takes your passkey. It counts for five minutes; then decide again.");
    way("Use my passkey", async () => {
      await ceremony("/api/proof", get);
      say("Confirmed", "You can decide now.");
      back();
    });
    return;
  }
  if (fragment.has("passkey")) {
    say("Add a passkey", "It signs you in, and critical requests will ask for it.");
    way("Add a passkey", async () => {
      await ceremony("/api/passkeys", create);
      say("Added", "");
      back();
    });
    return;
  }
  if (query.has("state") || query.has("error")) await backFromIssuer().catch(failed);
  const ways = await call("GET", "/api/sign-in");
  if (!ways.passkeys && !ways.oidc) say("Sign in from your terminal", "Run banksman login on the machine that runs Banksman, and open the link it prints.");
  if (ways.passkeys) way("Sign in with a passkey", async () => enter(await ceremony("/api/sign-in/passkey", get)));
  if (ways.oidc) {
    way(`Sign in with ${ways.oidc}`, async () => {
      const { ceremony, url } = await call("POST", "/api/sign-in/oidc/begin");
      sessionStorage.setItem(ASKED, ceremony);
      location.assign(url);
    });
  }
}

main().catch(failed);
