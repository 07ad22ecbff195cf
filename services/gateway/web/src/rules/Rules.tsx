// The rules that this person may see, and their end.
import { ListChecks } from "lucide-react";
import { useCallback, useEffect, useState } from "react";
import type { Rule } from "@banksman/client";
import { Verbatim } from "../cards/blocks";
import { useNow } from "../cards/useNow";
import { clock } from "../cards/words";
import { useApp, useAppState } from "../ui/context";
import { Button, Chip, SureButton } from "../ui/controls";
import { Change, Decided } from "./Row";
import { standing, usage } from "./words";

export default function Rules() {
  const app = useApp();
  const { offset, conn } = useAppState();
  const now = useNow(offset);
  const [list, setList] = useState<Rule[]>();
  const [problem, setProblem] = useState("");
  const online = conn.status === "online";
  const load = useCallback(() => {
    app.rules.rules().then(
      (rules) => {
        setList(rules);
        setProblem("");
      },
      (e: unknown) => setProblem(e instanceof Error ? e.message : String(e)),
    );
  }, [app]);
  useEffect(() => {
    if (online) load();
    return app.client.on("frame", (f) => {
      if (f.type === "rules_changed") load();
    });
  }, [app, load, online]);
  const active = list?.filter((r) => r.state === "active") ?? [];
  const ended = list?.filter((r) => r.state !== "active") ?? [];
  return (
    <div data-testid="rules" className="mx-auto w-full max-w-3xl px-4 py-6 md:px-8">
      <h1 className="text-xl font-semibold">Rules</h1>
      <p className="mt-1 mb-4 text-sm text-soft">What is decided before anybody is asked. A rule is made at a request, with “Always…”, ends by itself, and never decides what its maker could not.</p>
      {problem !== "" && <p role="alert" className="mb-3 text-sm font-medium text-ink">The rules could not be fetched: {problem} <Button small onClick={load}>Try again</Button></p>}
      {!list && problem === "" && <p role="status" className="text-soft">Fetching…</p>}
      {list && active.length === 0 && <p className="flex items-center gap-2.5 rounded-2xl border border-line bg-card px-5 py-4 text-soft"><ListChecks size={18} aria-hidden />No rule is in force: everything comes to people.</p>}
      {active.length > 0 && <ul aria-label="Rules in force" className="divide-y divide-line rounded-2xl border border-line bg-card">{active.map((r) => <Row key={r.id} rule={r} now={now} online={online} onDone={load} />)}</ul>}
      {ended.length > 0 && (
        <>
          <h2 className="mt-6 mb-2 font-semibold">Ended</h2>
          <ul aria-label="Rules that ended" className="divide-y divide-line rounded-2xl border border-line bg-card/60">{ended.map((r) => <Row key={r.id} rule={r} now={now} online={online} onDone={load} />)}</ul>
        </>
      )}
    </div>
  );
}

function Row({ rule, now, online, onDone }: { rule: Rule; now: number; online: boolean; onDone: () => void }) {
  const app = useApp();
  const { principal } = useAppState();
  const [sure, setSure] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [open, setOpen] = useState<"" | "decisions" | "change">("");
  const active = rule.state === "active";
  const mine = principal?.id === rule.maker.id && principal.kind === rule.maker.kind;
  const revoke = () => {
    setBusy(true);
    app.rules.revokeRule(rule.id).then(onDone, (e: unknown) => {
      setBusy(false);
      setSure(false);
      setProblem(e instanceof Error ? e.message : String(e));
    });
  };
  return (
    <li data-testid={`rule-${rule.id}`} data-state={rule.state} className="px-5 py-4 max-md:px-4">
      <div className="flex flex-wrap items-start gap-x-3 gap-y-2">
        <p className="verbatim min-w-0 flex-1 basis-60"><code className="font-mono font-semibold"><Verbatim text={rule.title} /></code></p>
        <Chip tone={rule.effect === "deny" ? "neutral" : "accent"}>{rule.effect === "deny" ? "Denies" : "Allows"}</Chip>
      </div>
      <p className="verbatim mt-1 text-sm text-soft"><Verbatim text={rule.text} /></p>
      <p className="mt-1 text-[13px] text-faint">
        Made by {mine ? "you" : rule.maker.name || rule.maker.id}, {clock(rule.created_at, now)}. {standing(rule, now)}; {usage(rule, now)}.
      </p>
      {(rule.changes ?? []).map((c) => (
        <p key={c.version} className="verbatim text-[13px] text-faint">Version {c.version}: {c.what}. By {c.by.name || c.by.id}, {clock(c.at, now)}.{c.text && <> Before: <Verbatim text={c.text} /></>}</p>
      ))}
      {problem !== "" && <p role="alert" className="mt-1 text-sm font-medium text-ink">Not revoked: {problem}</p>}
      <div className="mt-2 flex flex-wrap gap-2">
        {rule.uses > 0 && <Button small look="quiet" data-testid="rule-decisions" aria-expanded={open === "decisions"} disabled={!online} onClick={() => setOpen(open === "decisions" ? "" : "decisions")}>{open === "decisions" ? "Hide what it decided" : "What it decided"}</Button>}
        {active && rule.may_change && <Button small look="quiet" data-testid="rule-change" aria-expanded={open === "change"} disabled={!online} onClick={() => setOpen(open === "change" ? "" : "change")}>Change…</Button>}
        {active && rule.may_revoke && (sure ? (
            <>
              <SureButton small look="danger" data-testid="revoke-sure" disabled={!online || busy} busy={busy} onClick={revoke}>Revoke it now</SureButton>
              <Button small look="quiet" disabled={busy} onClick={() => setSure(false)}>Keep it</Button>
            </>
          ) : <Button small data-testid="revoke" disabled={!online} onClick={() => { setSure(true); setProblem(""); }}>Revoke…</Button>)}
      </div>
      {sure && <p className="mt-1 text-[13px] text-soft">What waits stays with people; what it decided stands.</p>}
      {open === "decisions" && <Decided rule={rule} now={now} />}
      {open === "change" && <Change rule={rule} now={now} onDone={() => { setOpen(""); onDone(); }} />}
    </li>
  );
}
