import { ArrowDownNarrowWide, Clock, LoaderCircle } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { Card } from "../cards/Card";
import { byDeadline, order, pendingKeys } from "@banksman/client";
import { useAppState } from "../ui/context";
import { Button } from "../ui/controls";
import { Empty } from "./Empty";

const MAX_RECEIPTS = 20;
const KINDS: Record<string, string> = { approval: "Approvals", question: "Questions", form: "Forms" };

/** All that waits, in all sessions. What is decided here stays as a receipt until cleared. */
export function Inbox({ empty }: { empty?: ReactNode }) {
  const state = useAppState();
  const pending = pendingKeys(state);
  const [kept, setKept] = useState<readonly string[]>([]);
  const [sort, setSort] = useState<"age" | "deadline">("age");
  const [agent, setAgent] = useState("");
  const [kind, setKind] = useState("");

  // Cards seen open on this screen keep their place when they end.
  const news = pending.filter((k) => !kept.includes(k));
  if (news.length > 0) setKept([...kept, ...news]);

  useEffect(() => {
    const closed = kept.filter((k) => state.items[k]?.closed);
    if (closed.length > MAX_RECEIPTS) {
      const gone = new Set(closed.slice(0, closed.length - MAX_RECEIPTS));
      setKept(kept.filter((k) => !gone.has(k)));
    }
  }, [kept, state.items]);

  const shown = kept.filter((k) => state.items[k]);
  const agents = [...new Set(pending.map((k) => agentOf(state.items[k]!.summary)))].sort();
  const kinds = [...new Set(pending.map((k) => state.items[k]!.summary.kind))].sort();
  const visible = shown
    .filter((k) => {
      const s = state.items[k]!.summary;
      return (agent === "" || !agents.includes(agent) || agentOf(s) === agent) && (kind === "" || !kinds.includes(kind) || s.kind === kind);
    })
    .sort((a, b) => (sort === "age" ? order : byDeadline)(state.items[a]!.summary, state.items[b]!.summary));
  const receipts = shown.filter((k) => state.items[k]!.closed);
  const loading = state.snapshot === "loading";

  return (
    <div data-testid="inbox" data-loading={loading || undefined} className="mx-auto flex w-full max-w-3xl flex-col gap-4 px-4 py-6 md:px-8">
      {/* The tools stand after the cards in tab order: the first decision is near. */}
      <div className="order-2 flex flex-col gap-4">
        {visible.map((k) => <Card key={k} itemKey={k} />)}
        {loading && visible.length === 0 && (
          <p role="status" className="flex items-center gap-3 rounded-2xl border border-dashed border-line p-8 text-soft">
            <LoaderCircle size={18} aria-hidden className="animate-spin" />Asking the server what waits…
          </p>
        )}
        {!loading && pending.length === 0 && (empty ?? <Empty quiet={receipts.length > 0} />)}
        {!loading && pending.length > 0 && visible.length === 0 && <p className="text-soft">Nothing matches these filters. {pending.length} wait in all.</p>}
      </div>
      <div className="order-1 flex flex-wrap items-center gap-x-3 gap-y-2">
        <h1 className="mr-auto text-xl font-semibold">
          {loading && pending.length === 0 ? "Inbox" : pending.length === 0 ? "Nothing waits for you" : pending.length === 1 ? "1 request waits for you" : `${pending.length} requests wait for you`}
        </h1>
        {receipts.length > 0 && <Button small look="quiet" onClick={() => setKept(kept.filter((k) => !state.items[k]?.closed))}>Clear receipts</Button>}
        {agents.length > 1 && <Select label="Agent" value={agent} onChange={setAgent} all="All agents" options={agents.map((a) => [a, a])} />}
        {kinds.length > 1 && <Select label="Kind" value={kind} onChange={setKind} all="All kinds" options={kinds.map((x) => [x, KINDS[x] ?? x])} />}
        {pending.length > 1 && (
          <Button small onClick={() => setSort(sort === "age" ? "deadline" : "age")} title="Change the order">
            {sort === "age" ? <ArrowDownNarrowWide size={15} aria-hidden /> : <Clock size={15} aria-hidden />}
            {sort === "age" ? "Newest last" : "Due first"}
          </Button>
        )}
      </div>
    </div>
  );
}

function agentOf(s: { agent_name?: string; owner: string }): string {
  return s.agent_name || s.owner;
}

function Select({ label, value, onChange, all, options }: { label: string; value: string; onChange: (v: string) => void; all: string; options: [string, string][] }) {
  return (
    <select aria-label={label} value={value} onChange={(e) => onChange(e.target.value)} className="min-h-9 max-w-44 rounded-lg border border-edge/60 bg-card px-2 text-sm max-md:min-h-11">
      <option value="">{all}</option>
      {options.map(([v, text]) => <option key={v} value={v}>{text}</option>)}
    </select>
  );
}
