import { pendingCount } from "@banksman/client";
import { WifiOff } from "lucide-react";
import { useEffect, useState } from "react";
import { Card } from "../../../src/cards/Card";
import { Inbox } from "../../../src/inbox/Inbox";
import { useAppState, useCards } from "../../../src/ui/context";
import { Notice } from "../../../src/ui/controls";
import { ErrorBoundary } from "../../../src/ui/ErrorBoundary";
import { LiveRegion, useDeadlineWords } from "../../../src/ui/LiveRegion";

/** What an element shows: all that waits, or one interaction. */
export function View({ itemKey, gateway, speaks }: { itemKey: string | null; gateway: string; speaks: boolean }) {
  const state = useAppState();
  return (
    <ErrorBoundary fallback={(error) => <p role="alert" className="p-4">This cannot be drawn: {error.message}</p>}>
      <Standing gateway={gateway} />
      {state.conn.status !== "signed_out" && (itemKey === null
        ? <Inbox empty={<p className="rounded-2xl border border-dashed border-line p-8 text-center text-soft">Requests of your agents appear here by themselves.</p>} />
        : <One itemKey={itemKey} />)}
      {speaks && <Speaker />}
    </ErrorBoundary>
  );
}

function Standing({ gateway }: { gateway: string }) {
  const { conn, snapshot } = useAppState();
  if (conn.status === "online" || (conn.status === "connecting" && snapshot === "loading")) return null;
  const words = {
    connecting: "Connecting again…",
    lost: "The connection to the gateway is lost. It comes back by itself; decisions are off until then.",
    signed_out: "Nobody is signed in here: the session token is missing or has expired.",
    stopped: `The gateway ended the connection${conn.status === "stopped" && conn.reason ? `: ${conn.reason}` : "."}`,
  }[conn.status];
  return (
    <div data-testid="standing" data-status={conn.status} className="p-4">
      <Notice tone="strong" icon={<WifiOff size={16} />}>
        {words}{conn.status === "signed_out" && gateway !== "" && <> <a className="underline underline-offset-2" href={gateway} target="_blank" rel="noreferrer">Open the gateway’s own page</a></>}
      </Notice>
    </div>
  );
}

function One({ itemKey }: { itemKey: string }) {
  const { client } = useCards();
  const state = useAppState();
  const known = state.items[itemKey] !== undefined;
  const ready = state.conn.status === "online" && state.snapshot === "ready";
  const [asked, setAsked] = useState("");
  useEffect(() => {
    if (known || !ready) return;
    const left = new AbortController();
    client.load(itemKey, left).then(() => !left.signal.aborted && setAsked(itemKey), () => undefined);
    return () => left.abort();
  }, [client, itemKey, known, ready]);
  if (known) return <div className="p-1"><Card itemKey={itemKey} /></div>;
  return <p role="status" className="p-4 text-soft">{itemKey === "" ? "No request is named here." : asked === itemKey ? "The gateway knows no such request." : "Looking up the request…"}</p>;
}

function Speaker() {
  useDeadlineWords();
  return <LiveRegion />;
}

/** How many wait, told to the page that embeds the element. */
export function Count({ tell }: { tell: (n: number) => void }) {
  const state = useAppState();
  const n = state.snapshot === "ready" ? pendingCount(state) : -1;
  useEffect(() => {
    if (n >= 0) tell(n);
  }, [n, tell]);
  return null;
}
