// A client of the app's own, which the app reads and the element draws.
import { Client, type Item, type State, WebSocketTransport } from "@banksman/client";
import { useEffect, useState, useSyncExternalStore } from "react";
import { createRoot } from "react-dom/client";
import "./elements.d.ts";

// #gateway=http://127.0.0.1:8080&token=<session token>
const given = new URLSearchParams(location.hash.slice(1));
history.replaceState(null, "", location.pathname); // a token does not belong into the history
const gateway = given.get("gateway") ?? "http://127.0.0.1:8080";
const token = given.get("token");

const client = new Client({ transport: new WebSocketTransport({ gateway, token: () => token }), storage: localStorage });
client.start();
// Before the first drawing: React gives properties only to elements it knows.
await import(/* @vite-ignore */ `${gateway}/elements.js`);

function useClient<T>(pick: (s: State) => T): T {
  return pick(useSyncExternalStore(client.store.subscribe, client.store.get));
}

function App() {
  const status = useClient((s) => s.conn.status);
  const [count, setCount] = useState(0);
  const [last, setLast] = useState<Item>();
  useEffect(() => {
    const left = new AbortController();
    client.on("closed", setLast, left);
    return () => left.abort();
  }, []);
  return (
    <main>
      <h1>Deployments</h1>
      <p>
        The gateway is <b>{status}</b>. <span id="count">{count}</span> wait. <span id="last">{last && `Last: ${last.outcome}`}</span>
      </p>
      <banksman-inbox client={client} onbanksman-pending={(e) => setCount(e.detail.count)} />
    </main>
  );
}

createRoot(document.getElementById("root")!).render(<App />);
