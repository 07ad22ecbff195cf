import { FlaskConical, Inbox as InboxIcon } from "lucide-react";
import { useEffect, useState } from "react";
import { Receipt } from "../cards/Receipt";
import { useNow } from "../cards/useNow";
import { origin } from "../cards/words";
import { cardState } from "@banksman/client";
import { useApp, useAppState } from "../ui/context";
import { Button, CopyButton } from "../ui/controls";
import { sessionHref } from "../ui/route";

const COMMAND = `banksman ask --tool Bash --input '{"command":"make deploy"}'`;

export function Empty({ quiet }: { quiet: boolean }) {
  const app = useApp();
  const state = useAppState();
  const now = useNow(state.offset);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const needsHistory = state.history.state === "idle" && state.conn.status === "online";
  useEffect(() => {
    if (needsHistory) void app.client.loadHistory();
  }, [needsHistory, app]);

  const demo = () => {
    setBusy(true);
    setProblem("");
    app.demo().then(
      (session) => {
        setBusy(false);
        if (session) location.hash = sessionHref(session);
      },
      (e: unknown) => {
        setBusy(false);
        setProblem(e instanceof Error ? e.message : String(e));
      },
    );
  };
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
            {state.runtimes.length > 0 ? `Workers are here for: ${state.runtimes.join(", ")}.` : "No worker is connected: no session can start here. Scripts and programs can ask."}
          </p>
        )}
        {problem !== "" && <p role="alert" className="mt-3 text-sm text-amber">The demo did not start: {problem}</p>}
        <div className="mx-auto mt-6 max-w-lg text-left">
          <p className="text-sm text-soft">Ask from any script or agent; the command waits for your answer:</p>
          <div className="mt-2 flex items-start gap-2 rounded-xl bg-code px-4 py-3 text-code-ink">
            <code className="verbatim min-w-0 flex-1 font-mono text-[13px] leading-5">{COMMAND}</code>
            <CopyButton text={COMMAND} onDark />
          </div>
        </div>
      </section>
      {state.history.state === "failed" && <p className="text-sm text-amber">The last decisions could not be fetched. <Button small onClick={() => void app.client.loadHistory()}>Try again</Button></p>}
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
