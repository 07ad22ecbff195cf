import { Suspense, useEffect, useState } from "react";
import { GatewayError } from "@banksman/client";
import { Card } from "../cards/Card";
import { useApp, useAppState } from "../ui/context";
import { Button } from "../ui/controls";
import { useNow } from "../cards/useNow";
import { later } from "../ui/later";
import { interactionHref } from "../ui/route";

const Told = later(() => import("./Told").then((m) => m.Told));

/** One request by itself: where the link of an alert leads. */
export function One({ itemKey }: { itemKey: string }) {
  const app = useApp();
  const state = useAppState();
  const item = state.items[itemKey];
  const known = item !== undefined;
  const online = state.conn.status === "online";
  const now = useNow(state.offset);
  const [problem, setProblem] = useState("");
  const [again, setAgain] = useState(0);
  // Settled before anybody looked at it here, which the reader came to do.
  const [before, setBefore] = useState<boolean>();
  if (known && before === undefined) setBefore(item.closed);
  useEffect(() => {
    if (known || !online) return;
    const here = new AbortController();
    setProblem("");
    app.client.find(itemKey, here).then(
      (found) => {
        if (here.signal.aborted) return;
        if (!found) setProblem("The server knows no such request, or you may not see it.");
        else if (found.summary.key !== itemKey) location.replace(interactionHref(found.summary.key)); // it was named by its id alone
      },
      (e: unknown) => !here.signal.aborted && setProblem(e instanceof GatewayError ? `It could not be looked up: ${e.message}` : "It could not be looked up."),
    );
    return () => here.abort();
  }, [app, itemKey, known, online, again]);
  return (
    <div data-testid="one" className="mx-auto flex w-full max-w-3xl flex-col gap-4 px-4 py-6 md:px-8">
      <h1 className={before ? "text-xl font-semibold" : "sr-only"}>{before ? "This request is settled already" : "One request"}</h1>
      {known
        ? <><Card itemKey={itemKey} /><Suspense fallback={null}><Told itemKey={itemKey} over={item.closed} online={online} now={now} /></Suspense></>
        : problem === ""
          ? <p role="status" className="text-soft">{online ? "Looking up the request…" : "There is no connection to the server. The request is looked up when it is back."}</p>
          : <p role="alert" className="text-soft">{problem} <Button small onClick={() => setAgain(again + 1)}>Look again</Button></p>}
      <p><a href="#/" className="text-accent underline-offset-2 hover:underline">All that waits</a></p>
    </div>
  );
}
