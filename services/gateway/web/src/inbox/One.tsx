import { useEffect, useState } from "react";
import { Card } from "../cards/Card";
import { useAppState, useCards } from "../ui/context";

/** One request by itself: where the link of an alert leads. */
export function One({ itemKey }: { itemKey: string }) {
  const app = useCards();
  const state = useAppState();
  const known = state.items[itemKey] !== undefined;
  const online = state.conn.status === "online";
  const [asked, setAsked] = useState(false);
  useEffect(() => {
    if (known || !online) return;
    let here = true;
    void app.client.load(itemKey).then(() => here && setAsked(true));
    return () => void (here = false);
  }, [app, itemKey, known, online]);
  return (
    <div data-testid="one" className="mx-auto flex w-full max-w-3xl flex-col gap-4 px-4 py-6 md:px-8">
      <h1 className="sr-only">One request</h1>
      {known
        ? <Card itemKey={itemKey} />
        : <p role="status" className="text-soft">{asked ? "The server knows no such request." : "Looking up the request…"}</p>}
      <p><a href="#/" className="text-accent underline-offset-2 hover:underline">All that waits</a></p>
    </div>
  );
}
