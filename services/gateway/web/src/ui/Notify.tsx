// Notifications while no page is open, in this browser and in others of this person.
import { useCallback, useEffect, useState } from "react";
import type { PushBrowser, PushBrowsers } from "@banksman/client";
import { Verbatim } from "../cards/blocks";
import { clock } from "../cards/words";
import { own, type PushState, pushState, turnOff, turnOn } from "../store/push";
import { useApp } from "./context";
import { Button, Problem } from "./controls";
import { Sure, useList } from "./People";

const why: Partial<Record<PushState, string>> = {
  insecure: "This page was not opened over https or on this machine, so the browser allows no notifications here.",
  unsupported: "This browser has no notifications for pages. On an iPhone or iPad, add the page to the home screen first.",
  blocked: "Notifications of this page are blocked in the browser. Allow them in the settings of this site, then load the page again.",
};

export function Notify({ person, now }: { person: string; now: number }) {
  const { gateway } = useApp();
  const [key, setKey] = useState("");
  const [state, setState] = useState<PushState>();
  const [mine, setMine] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState("");
  const get = useCallback(() => gateway.call<PushBrowsers>("GET", "/api/push").then((r) => { setKey(r.public_key); return r.browsers ?? []; }), [gateway]);
  const { list, problem, act } = useList<PushBrowser>(get);
  const look = useCallback(async () => {
    setState(await pushState());
    setMine(await own().catch(() => undefined));
  }, []);
  useEffect(() => void look().catch(() => setState("unsupported")), [look]);
  const here = list?.find((b) => b.id === mine);
  const on = state === "on" && here !== undefined;
  const press = async (what: () => Promise<unknown>) => {
    setBusy(true);
    setTrouble("");
    await act(() => what().catch((e: unknown) => setTrouble(e instanceof Error ? e.message : String(e))));
    await look().catch(() => undefined);
    setBusy(false);
  };
  const reason = state && why[state];
  return (
    <div className="space-y-3" data-testid="notify" data-state={on ? "on" : state}>
      <p className="text-sm text-soft">A notification when something waits for you, also while no page is open. What is sent, and when, is in the notifier’s configuration; a low risk can be decided in the notification where that says so.</p>
      {problem !== "" && <Problem>{problem}</Problem>}
      {trouble !== "" && <Problem>{trouble}</Problem>}
      {reason && <p className="text-sm font-medium" data-testid="notify-why">{reason}</p>}
      {list && key === "" && <p className="text-sm font-medium">This installation has no key for notifications yet: write its credentials anew and start it again.</p>}
      {!reason && state && list && key !== "" && (
        on
          ? <Button data-testid="notify-off" disabled={busy} busy={busy} onClick={() => void press(() => turnOff(gateway, here.id))}>Do not notify this browser</Button>
          : <Button look="solid" data-testid="notify-on" disabled={busy} busy={busy} onClick={() => void press(() => turnOn(gateway, person, key))}>Notify this browser</Button>
      )}
      {list && list.length > 0 && (
        <ul aria-label="Browsers that are notified" className="divide-y divide-line">
          {list.map((b) => (
            <li key={b.id} data-testid={`push-${b.id}`} className="flex flex-wrap items-start justify-between gap-2 py-3">
              <div className="min-w-0 flex-1">
                <p className="font-medium">{b.agent ? <Verbatim text={b.agent} /> : "A browser"}{b.id === mine ? <span className="text-soft"> (here)</span> : null}</p>
                <p className="text-sm text-soft">Since {clock(b.created_at, now)}.</p>
              </div>
              {b.id !== mine && <Sure label="Remove it" onSure={() => void act(() => gateway.call("DELETE", `/api/push/${encodeURIComponent(b.id)}`))} />}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
