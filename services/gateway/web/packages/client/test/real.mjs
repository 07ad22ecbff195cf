// Drives a real gateway with the built package: node real.mjs URL TOKEN. It says
// CUT when the gateway is to be killed and started again, and OK at the end.
import assert from "node:assert/strict";
import { WebSocket } from "ws";
import { Client, Gateway, HttpTransport, WebSocketTransport } from "../dist/index.js";

const [, , gateway, token] = process.argv;
const o = { gateway, token: () => token };
const make = {
  ws: () => new Client({ transport: new WebSocketTransport({ ...o, create: (url) => new WebSocket(url) }) }),
  http: () => new Client({ transport: new HttpTransport(o) }),
};
const clients = { ws: make.ws(), http: make.http() };
const all = Object.values(clients);
const refused = [];
for (const c of all) {
  c.on("receipt", (r) => r.error && refused.push(r));
  c.start();
}
const limit = setTimeout(() => {
  console.error("it takes too long");
  for (const c of all) console.error(JSON.stringify({ conn: c.state.conn, waits: c.pending().map((i) => i.summary.title), transcripts: c.state.transcripts }).slice(0, 2000));
  console.error(JSON.stringify({ refused }));
  process.exit(1);
}, 50_000);

/** Waits until what is so, looking at each change of every client. */
function until(what) {
  return new Promise((resolve) => {
    const offs = [];
    const look = () => {
      if (!what()) return;
      for (const off of offs) off();
      resolve();
    };
    for (const c of all) offs.push(c.store.subscribe(look));
    look();
  });
}

/** Starts the demo; a gateway that has just come up has heard no worker yet. */
async function demo() {
  for (;;) {
    try {
      return (await new Gateway(o).demo()).session_id;
    } catch (e) {
      if (e.code !== "unavailable") throw e;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

await Promise.all(all.map((c) => c.ready()));
await until(() => all.every((c) => c.pending().length === 3));
const [first, second, third] = clients.ws.pending().map((i) => i.summary.key);
const recovered = Object.fromEntries(Object.entries(clients).map(([name, c]) => {
  const list = [];
  c.on("frame", (f) => f.type === "hello" && list.push(f.recovered));
  return [name, list];
}));

// One decides over each way, the other sees it and is told the winner.
for (const [key, me, other] of [[first, clients.ws, clients.http], [second, clients.http, clients.ws]]) {
  const r = await me.decide(key, { decision: "deny", message: `no ${key}` });
  assert.equal(r.status, "accepted");
  assert.equal(r.decision.message, `no ${key}`);
  await until(() => other.item(key).closed);
  assert.equal(other.item(key).outcome, "denied");
  assert.equal((await other.decide(key, { decision: "allow" })).status, "already_decided");
}
const bad = await clients.http.decide(third, { decision: "yes" });
assert.deepEqual([bad.status, bad.fields.map((f) => f.field)], ["invalid", ["decision"]]);
assert.deepEqual(await clients.ws.decide(third, { decision: "yes" }).then((r) => [r.status, r.fields.map((f) => f.field)]), [bad.status, ["decision"]]);

const cut = until(() => all.every((c) => c.state.conn.status !== "online"));
console.log("CUT");
await cut;
await until(() => all.every((c) => c.state.conn.status === "online" && c.state.snapshot === "ready"));
for (const c of all) assert.deepEqual(c.pending().map((i) => i.summary.key), [third]);
for (const list of Object.values(recovered)) assert.equal(list.length, 1);
assert.equal((await clients.http.decide(third, { decision: "allow" })).status, "accepted");
await until(() => clients.ws.item(third).outcome === "allowed");

// A whole conversation: the same over each way, live and on replay.
const session = await demo();
for (const c of all) c.follow(session);
let decided = 0;
const over = () => clients.ws.state.transcripts[session].entries.some((e) => e.kind === "text" && e.text.startsWith("That was everything"));
for (;;) {
  await until(() => over() || clients.ws.pending().length > 0);
  const item = clients.ws.pending()[0];
  if (!item) break;
  const { key, kind } = item.summary;
  const by = all[decided++ % 2];
  await until(() => by.item(key) !== undefined);
  await by.load(key);
  const r = await by.decide(key, kind === "approval" ? { decision: "allow" } : { action: "dismiss" });
  assert.equal(r.status, "accepted", r.error);
  await until(() => all.every((c) => c.item(key)?.closed));
}
assert.ok(decided >= 6, `${decided} decisions`);
const late = make.ws();
all.push(late);
late.start();
late.follow(session);
const told = (c) => c.state.transcripts[session].entries.map(({ id, live, ...e }) => e);
const settled = () => all.every((c) => c.state.transcripts[session]?.loading === false && told(c).length === told(clients.ws).length && JSON.stringify(told(c)) === JSON.stringify(told(late)));
await until(() => late.state.transcripts[session]?.loading === false && over());
await until(settled);
assert.ok(told(late).length > decided, "there is a conversation");
for (const c of all) c.stop();
clearTimeout(limit);
console.log(`OK ${decided} decisions, ${told(late).length} entries`);
