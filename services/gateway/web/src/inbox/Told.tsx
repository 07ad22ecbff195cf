// Who was told elsewhere about a request, by what, and what comes next.
import { Bell } from "lucide-react";
import { useEffect, useId, useState } from "react";
import { type AlertDelivery, type Alerts, GatewayError } from "@banksman/client";
import { Verbatim } from "../cards/blocks";
import { clock, span } from "../cards/words";
import { useApp } from "../ui/context";
import { Button, Chip, type Tone } from "../ui/controls";

const states: Record<string, { word: string; tone: Tone }> = {
  planned: { word: "comes", tone: "neutral" },
  claimed: { word: "is being sent", tone: "neutral" },
  sent: { word: "told", tone: "green" },
  retracted: { word: "told, and taken back", tone: "neutral" },
  failed: { word: "refused", tone: "strong" },
  dead: { word: "given up", tone: "strong" },
  skipped: { word: "not told", tone: "neutral" },
};

/** Until the request is over it is asked about again by itself, so often (ms). */
const EVERY = 15_000;

export function Told({ itemKey, over, online, now }: { itemKey: string; over: boolean; online: boolean; now: number }) {
  const app = useApp();
  const id = useId();
  const [open, setOpen] = useState(false);
  const [told, setTold] = useState<Alerts>();
  const [problem, setProblem] = useState("");
  const [again, setAgain] = useState(0);
  useEffect(() => {
    if (!open || !online) return;
    const here = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    app.gateway.call<Alerts>("GET", `/api/interactions/${encodeURIComponent(itemKey)}/alerts`, { signal: here.signal }).then(
      (a) => {
        if (here.signal.aborted) return;
        setTold(a);
        setProblem("");
        if (!over) timer = setTimeout(() => setAgain((n) => n + 1), EVERY);
      },
      (e: unknown) => !here.signal.aborted && setProblem(e instanceof GatewayError && e.status === 403 ? "Who was told is for those who may decide this." : `It could not be looked up${e instanceof Error ? `: ${e.message}` : "."}`),
    );
    return () => {
      here.abort();
      clearTimeout(timer);
    };
  }, [app, itemKey, open, over, online, again]);
  return (
    <section aria-label="Who was told">
      <Button small look="quiet" data-testid="told-open" aria-expanded={open} aria-controls={open ? id : undefined} onClick={() => setOpen(!open)}><Bell size={15} aria-hidden />{open ? "Hide who was told" : "Who was told?"}</Button>
      {open && (
        <div id={id} data-testid="told" className="mt-2 space-y-3 rounded-2xl border border-line bg-card px-5 py-4 text-sm max-md:px-4">
          {problem !== "" && <p role="alert" className="font-medium">{problem} <Button small onClick={() => setAgain(again + 1)}>Look again</Button></p>}
          {!told && problem === "" && <p role="status" className="text-soft">{online ? "Asking the notifier…" : "There is no connection to the server."}</p>}
          {told && <Body told={told} now={now} />}
        </div>
      )}
    </section>
  );
}

function Body({ told, now }: { told: Alerts; now: number }) {
  const list = told.deliveries ?? [];
  if (told.notifier === "silent") return <p>No notifier answered, so nothing is known here of who was told. People who look at this page see the request all the same.</p>;
  return (
    <>
      <p>{summed(told, now)}</p>
      {told.claim && <p className="verbatim"><Verbatim text={told.claim.by} /> looks after it until {clock(told.claim.until, now)}; the others are not told as long.</p>}
      {list.length > 0 && (
        <ol aria-label="Alerts, in the order of time" className="space-y-2.5">
          {list.map((d) => <li key={`${d.step} ${d.address}`} data-state={d.state}><Delivery d={d} now={now} /></li>)}
        </ol>
      )}
    </>
  );
}

/** What comes next, or that nothing does. */
function summed(a: Alerts, now: number): string {
  const list = a.deliveries ?? [];
  if (a.route === "none") return "No route of the notifier leads this request to anybody: nobody is told elsewhere.";
  if (list.length === 0) return a.planned_at ? "The notifier knows this request, and nobody is to be told of it." : "The notifier has nothing planned for this request: nobody is told elsewhere.";
  const next = list.filter((d) => d.state === "planned").sort((x, y) => x.due_at.localeCompare(y.due_at))[0];
  if (next) return `Next: ${name(next)}, ${when(next.due_at, now)}.`;
  return a.over_at ? "It is over: nobody else is told." : "Nobody else is to be told.";
}

function name(d: AlertDelivery): string {
  return d.address.replace("/", " by ");
}

function when(due: string, now: number): string {
  const left = Date.parse(due) - now;
  return left > 1000 ? `at ${clock(due, now)}, in ${span(left)}` : `due since ${clock(due, now)}`;
}

function occasion(step: string): string {
  const n = /^step(\d+)/.exec(step)?.[1];
  if (n) return `step ${n}`;
  return { reminder: "reminder", open: "as it opened", closed: "the end" }[step] ?? step;
}

function Delivery({ d, now }: { d: AlertDelivery; now: number }) {
  const s = states[d.state] ?? { word: d.state, tone: "neutral" };
  const at = d.sent_at ? clock(d.sent_at, now) : d.state === "planned" ? when(d.due_at, now) : "";
  const notes = [
    d.said ? <>The provider said: “<Verbatim text={d.said} />”</> : null,
    d.problem ? <Verbatim text={d.problem} /> : null,
    d.held ? <>Put off: <Verbatim text={d.held} /></> : null,
    d.digest ? "In one message with others" : null,
    d.uncertain ? "It may have arrived without anybody’s knowing" : null,
    d.tries > 1 ? `${d.tries} tries` : null,
  ].filter((n) => n !== null);
  return (
    <>
      <p className="verbatim flex flex-wrap items-center gap-x-2.5 gap-y-1">
        <span className="font-medium"><Verbatim text={name(d)} /></span>
        {d.channel_type && !d.address.includes(d.channel_type) && <span className="text-faint">{d.channel_type}</span>}
        <Chip tone={s.tone}>{s.word}</Chip>
        <span className="text-soft">{at}</span>
        <span className="text-faint">{occasion(d.step)}</span>
      </p>
      {notes.map((n, i) => <p key={i} className="verbatim mt-0.5 text-soft">{n}.</p>)}
    </>
  );
}
