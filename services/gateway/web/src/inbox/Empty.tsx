import { Bell, BellOff, FlaskConical, Inbox as InboxIcon } from "lucide-react";
import { useEffect, useState } from "react";
import { Receipt } from "../cards/Receipt";
import { useNow } from "../cards/useNow";
import { clock, origin } from "../cards/words";
import { type AlertChannel, cardState } from "@banksman/client";
import { useHelpers } from "../store/helpers";
import { useApp, useAppState } from "../ui/context";
import { Button, CopyButton, Problem } from "../ui/controls";
import { useHere } from "../ui/place";
import { runtimeName } from "../session/modes";
import { sessionHref } from "../ui/route";

const REQUEST = `--tool Bash --input '{"command":"make deploy"}'`;

export function Empty({ quiet }: { quiet: boolean }) {
  const app = useApp();
  const state = useAppState();
  const now = useNow(state.offset);
  const { runtimes, notifier, channels } = useHelpers();
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const here = useHere();
  const needsHistory = state.history.state === "idle" && state.conn.status === "online";
  useEffect(() => {
    if (needsHistory) void app.client.loadHistory();
  }, [needsHistory, app]);

  const demo = () => {
    setBusy(true);
    setProblem("");
    const place = location.hash;
    app.demo().then(
      (session) => {
        setBusy(false);
        // Whoever has gone elsewhere meanwhile stays there.
        if (session && here.current && location.hash === place) location.hash = sessionHref(session);
      },
      (e: unknown) => {
        setBusy(false);
        setProblem(e instanceof Error ? e.message : String(e));
      },
    );
  };
  const command = `${state.askCommand || "banksman ask"} ${REQUEST}`;
  const last = state.history.keys.filter((k) => state.items[k]?.closed).slice(0, 5);
  return (
    <>
      <section className="rounded-2xl border border-dashed border-line px-6 py-8 text-center">
        <InboxIcon size={28} aria-hidden className="mx-auto text-faint" />
        {/* The heading above says that nothing waits. */}
        <p className="mx-auto mt-3 max-w-md text-soft">Requests of your agents appear here by themselves, from every session.</p>
        <div className="mt-5 flex flex-wrap items-center justify-center gap-2">
          <Button look="solid" data-testid="demo" busy={busy} disabled={busy || state.conn.status !== "online"} onClick={demo}><FlaskConical size={16} aria-hidden />Start a demo</Button>
          <a href="#/new" className="inline-flex min-h-11 items-center rounded-lg px-4 font-medium text-soft hover:bg-sunk hover:text-ink">Start an agent</a>
        </div>
        {state.conn.status === "online" && (
          <p data-testid="workers" className="mt-3 text-sm text-soft">
            {runtimes.length > 0 ? `Workers are here for: ${runtimes.map(runtimeName).join(", ")}.` : "No worker is connected: no session can start here. Scripts and programs can ask."}
          </p>
        )}
        {problem !== "" && <Problem className="mt-3 justify-center">The demo did not start: {problem}</Problem>}
        {state.conn.status === "online" && notifier && <Alerts notifier={notifier} channels={channels} now={now} />}
        <div className="mx-auto mt-6 max-w-lg text-left">
          <p className="text-sm text-soft">Ask from any script or agent; the command waits for your answer:</p>
          <div className="mt-2 flex items-start gap-2 rounded-xl bg-code px-4 py-3 text-code-ink">
            <code className="verbatim min-w-0 flex-1 font-mono text-[13px] leading-5">{command}</code>
            <CopyButton text={command} onDark />
          </div>
          {state.conn.status === "online" && state.askCommand === "" && <p className="mt-1.5 text-sm text-faint">Where the program is called so, and with the credential of an asker (--creds FILE).</p>}
        </div>
      </section>
      {state.history.state === "failed" && <p className="text-sm font-medium text-ink">The last decisions could not be fetched. <Button small onClick={() => void app.client.loadHistory()}>Try again</Button></p>}
      {!quiet && last.length > 0 && (
        <section aria-label="Last decisions" className="mt-2">
          <h2 className="mb-2 flex items-baseline justify-between text-sm font-semibold text-soft">Last decisions <a href="#/history" className="font-medium text-accent underline-offset-2 hover:underline">All of them</a></h2>
          <ul className="divide-y divide-line rounded-2xl border border-line bg-card">
            {last.map((k) => {
              const item = state.items[k]!;
              const card = cardState(state, k);
              return <li key={k} className="px-5 py-3.5"><Receipt item={item} me={card === "confirmed"} lost={card === "lost"} now={now} where={origin(item.summary, state.sessions[item.summary.session_key]?.title)[0]} /></li>;
            })}
          </ul>
        </section>
      )}
    </>
  );
}

/** Whether anybody would be told who does not look at this page. */
function Alerts({ notifier, channels, now }: { notifier: string; channels: AlertChannel[] | undefined; now: number }) {
  const here = notifier === "listening";
  return (
    <p data-testid="alerts" data-notifier={notifier} className="mx-auto mt-3 flex max-w-md items-start justify-center gap-2 text-left text-sm text-soft">
      {here ? <Bell size={15} aria-hidden className="mt-0.5 flex-none" /> : <BellOff size={15} aria-hidden className="mt-0.5 flex-none" />}
      <span>{here && channels ? told(channels, now) : (words[notifier] ?? words.unknown)} <a href="#/settings" className="font-medium text-accent underline-offset-2 hover:underline">A sound for this browser</a></span>
    </p>
  );
}

/** By what people are told, and whether it works. */
function told(channels: AlertChannel[], now: number): string {
  const ways = channels.filter((c) => c.type !== "log");
  if (ways.length === 0) return "A notifier is listening, and writes to its log only: nobody is alerted who does not look at this page.";
  return `A notifier is listening. It alerts people by ${ways.map((c) => `${c.type === "decider" ? "services that decide" : c.type} (${does(c, now)})`).join(", ")}.`;
}

function does(c: AlertChannel, now: number): string {
  const bad = c.failing + c.gone;
  return [
    bad === 0 ? "" : bad === c.addresses ? "does not work now" : `${bad} of ${c.addresses} do not work now`,
    c.last_success ? `last sent ${clock(c.last_success, now)}` : "nothing sent since it started",
  ].filter(Boolean).join(", ");
}

const words: Record<string, string> = {
  listening: "A notifier is listening. It alerts people by the channels in its own settings; without any it writes to its log only.",
  behind: "A notifier is there, but it is behind: alerts come late.",
  silent: "No notifier is listening: nobody is alerted who does not look at this page. Those that are missed are caught up with when one comes.",
  unknown: "Whether a notifier is listening cannot be told at the moment.",
};
