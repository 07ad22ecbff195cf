// What a rule would be, in its own words, with what it would decide and what not,
// before it is made.
import { X } from "lucide-react";
import { useEffect, useId, useRef, useState } from "react";
import type { ChangedRule, ChangeRule, NewRule, Receipt, Rule, RuleCase, RulePreview } from "@banksman/client";
import { Verbatim } from "../cards/blocks";
import { useNow } from "../cards/useNow";
import { clock } from "../cards/words";
import { useApp, useAppState } from "../ui/context";
import { Button, Chip, inputClass } from "../ui/controls";
import { useFresh } from "../ui/fresh";
import { LiveRegion } from "../ui/LiveRegion";
import type { Start } from "./open";
import { lasting, outcomes } from "./words";

/** rule: the one whose match is changed, as a new version; absent: one is made. */
export default function Sheet({ summary, start, rule, onClose }: { summary: { key: string; digest: string }; start: Start; rule?: Rule; onClose: () => void }) {
  const app = useApp();
  const { offset } = useAppState();
  const now = useNow(offset);
  const [pattern, setPattern] = useState(rule?.match.pattern ?? "exact");
  const [scope, setScope] = useState<NewRule["scope"]>(start.scope);
  const [lasts, setLasts] = useState(start.lasts);
  const [uses, setUses] = useState("");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set(rule ? [] : [summary.key]));
  const effect = start.effect ?? "allow";
  const denies = effect === "deny";
  const verb = denies ? "deny" : "approve";
  const [told, setTold] = useState<{ of: string; preview: RulePreview }>();
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [left, setLeft] = useState<string[]>();
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  const fresh = useFresh("");
  const of = `${pattern} ${scope}`;
  const preview = told?.preview;

  useEffect(() => {
    const d = box.current;
    d?.showModal?.();
    return () => d?.close?.();
  }, []);

  useEffect(() => {
    const stop = new AbortController();
    setProblem("");
    app.rules.previewRule({ request_id: summary.key, digest: summary.digest, effect, pattern, scope, expires_in: 1 }, { signal: stop.signal }).then(
      (p) => { if (!stop.signal.aborted) setTold({ of, preview: p }); },
      (e: unknown) => {
        if (stop.signal.aborted) return;
        setTold(undefined);
        setProblem(words(e));
      },
    );
    return () => stop.abort();
  }, [app, summary.key, summary.digest, effect, pattern, scope, of]);
  // What is read must be what is made: after another choice its words come first.
  const read = told?.of === of;

  const spans = lasting(now, preview?.max_expires_in ?? lasts);
  const most = uses.trim() === "" ? 0 : Number(uses);
  const badUses = !Number.isInteger(most) || most < 0 || (uses.trim() !== "" && most < 1) || most > 1_000_000;
  const apply = (preview?.pending ?? []).filter((c) => chosen.has(c.request_id));
  const thisToo = !rule && apply.some((c) => c.request_id === summary.key);
  const same = rule !== undefined && preview?.rule.text === rule.text;

  const make = () => {
    if (!read || busy || badUses || same) return;
    setBusy(true);
    setProblem("");
    const named = apply.map((c) => ({ request_id: c.request_id, digest: c.digest }));
    const done = (receipts: readonly Receipt[], say: string) => {
      const not = receipts.flatMap((r, i) => (r.status === "accepted" ? [] : [`${apply[i]?.headline ?? r.request_id}: ${r.error || r.status}`]));
      app.client.dispatch({ kind: "say", text: say });
      if (not.length === 0) onClose();
      else setLeft(not);
    };
    const failed = (e: unknown) => {
      setBusy(false);
      setProblem(words(e));
    };
    if (rule) {
      const change: ChangeRule = { version: rule.version ?? 1, match: { request_id: summary.key, digest: summary.digest, pattern, scope: scope ?? "session" }, ...(named.length > 0 ? { apply: named } : {}) };
      app.gateway.call<ChangedRule>("POST", `/api/rules/${encodeURIComponent(rule.id)}`, { body: change }).then((r) => done(r.applied ?? [], "The rule is changed."), failed);
      return;
    }
    const wish: NewRule = {
      request_id: summary.key, digest: summary.digest, effect, pattern, scope, expires_in: lasts,
      ...(most > 0 ? { max_uses: most } : {}),
      apply: named,
    };
    app.rules.makeRule(wish).then((made) => done(made.applied ?? [], "The rule is made."), failed);
  };

  return (
    <dialog ref={box} data-testid="rule-sheet" aria-labelledby={`${id}-title`} onClose={onClose}
      className="m-auto flex max-h-[92dvh] w-full max-w-2xl flex-col rounded-2xl border border-line bg-card text-left text-ink shadow-card backdrop:bg-black/40 max-md:mb-0 max-md:rounded-b-none">
      <div className="flex items-center justify-between border-b border-line px-5 py-3">
        <h2 id={`${id}-title`} className="text-lg font-semibold">{rule ? "What the rule matches" : denies ? "Deny this from now on" : "Allow this from now on"}</h2>
        <Button small look="quiet" aria-label="Close" onClick={onClose}><X size={16} aria-hidden /></Button>
      </div>
      {left ? (
        <div className="space-y-3 p-5">
          <p className="font-semibold">The rule is {rule ? "changed" : "made"}. These were not decided by it:</p>
          <ul className="list-disc space-y-1 pl-5 text-sm">{left.map((t) => <li key={t} className="verbatim"><Verbatim text={t} /></li>)}</ul>
          <Button onClick={onClose}>Close</Button>
        </div>
      ) : (
        <>
          <div className="min-h-0 flex-1 space-y-5 overflow-y-auto px-5 py-4">
            {problem !== "" && <p role="alert" className="rounded-lg bg-sunk border border-edge px-3.5 py-2.5 text-sm text-ink">{problem}</p>}
            {!preview && problem === "" && <p role="status" className="text-soft">Looking at what it would match…</p>}
            {preview && (
              <>
                {rule && <p className="text-sm text-soft">{same ? "So it is now" : "It would be"}:</p>}
                <p data-testid="rule-text" className="verbatim rounded-xl bg-code px-4 py-3 font-mono text-[13px] leading-5 text-code-ink"><Verbatim text={preview.rule.text} /></p>
                <Choices legend="What" name={`${id}-p`} list={preview.patterns ?? []} value={pattern} onChange={setPattern} />
                <Choices legend="Whose" name={`${id}-s`} list={preview.scopes ?? []} value={scope ?? "session"} onChange={(s) => setScope(s as NewRule["scope"])} />
                {!rule && <div className="flex flex-wrap gap-x-6 gap-y-3">
                  <label className="text-sm">
                    <span className="mb-1 block font-medium">How long</span>
                    <select data-testid="rule-lasts" value={lasts} onChange={(e) => setLasts(Number(e.target.value))} className="min-h-11 rounded-lg border border-edge/70 bg-card px-3">
                      {spans.some((s) => s.seconds === lasts) ? null : <option value={lasts}>as chosen</option>}
                      {spans.map((s) => <option key={s.text} value={s.seconds}>{s.text}</option>)}
                    </select>
                  </label>
                  <label className="text-sm">
                    <span className="mb-1 block font-medium">How often at most</span>
                    <input data-testid="rule-uses" inputMode="numeric" value={uses} placeholder="as often as it matches" aria-invalid={badUses} onChange={(e) => setUses(e.target.value)} className={`${inputClass} min-h-11 w-56`} />
                    {badUses && <span className="mt-1 block font-medium text-ink">A number from 1, or nothing.</span>}
                  </label>
                </div>}
                <Cases title="Waits now, and the rule would decide it" none="Nothing else waits that it would decide." list={preview.pending ?? []} now={now}
                  pick={{ verb, chosen, set: (key, on) => setChosen((old) => { const next = new Set(old); if (on) next.add(key); else next.delete(key); return next; }), mine: rule ? "" : summary.key }} />
                <Cases title={`Would have decided, of the last ${preview.looked} of this tool`} none={preview.looked === 0 ? "Nothing was decided of this tool yet that you may see." : `Would have decided none of the last ${preview.looked} of this tool that you may see.`} list={preview.recent ?? []} now={now} />
                <section>
                  <h3 className="text-sm font-semibold">{denies ? "Is not denied, and comes to you" : "Still comes to you"}</h3>
                  <ul className="mt-1.5 space-y-1 text-sm">
                    {!denies && (preview.examples ?? []).map((ex) => (
                      <li key={ex.text} className="verbatim"><code className="font-mono text-[13px]"><Verbatim text={ex.text} /></code> <span className="text-faint">{ex.why}</span></li>
                    ))}
                    {(preview.others ?? []).slice(0, 5).map((c) => <li key={c.request_id} className="verbatim"><CaseLine c={c} now={now} /></li>)}
                    <li className="text-faint">{denies ? "The same in other words, or hidden in a script: a rule reads commands, it does not guess. Whoever is asked may still approve." : "Everything that is riskier than this request, every script in which no commands can be read, and everything that you may not decide yourself."}</li>
                  </ul>
                </section>
              </>
            )}
          </div>
          <div className={`flex flex-wrap justify-between gap-2 border-t border-line px-5 py-3 ${fresh ? "pointer-events-none" : ""}`}>
            <Button onClick={onClose} disabled={busy} className="max-md:w-full">Cancel</Button>
            <Button look="solid" className="max-md:w-full" data-testid="rule-make" disabled={!read || busy || badUses || same} busy={busy} onClick={make}>
              {rule ? (apply.length > 0 ? `Change the rule and ${verb} ${apply.length}` : "Change the rule") : thisToo ? (apply.length > 1 ? `Make the rule and ${verb} ${apply.length}` : `Make the rule and ${verb} this`) : apply.length > 0 ? `Make the rule and ${verb} ${apply.length}` : "Make the rule only"}
            </Button>
          </div>
        </>
      )}
      <LiveRegion inside />
    </dialog>
  );
}

function Choices({ legend, name, list, value, onChange }: { legend: string; name: string; list: { id: string; text: string }[]; value: string; onChange: (id: string) => void }) {
  return (
    <fieldset>
      <legend className="text-sm font-semibold">{legend}</legend>
      {list.map((c) => (
        <label key={c.id} className="flex min-h-11 items-start gap-3 rounded-lg px-2 py-2.5 text-sm hover:bg-sunk">
          <input type="radio" name={name} value={c.id} checked={value === c.id} onChange={() => onChange(c.id)} className="mt-0.5" />
          <span className="verbatim min-w-0 first-letter:uppercase"><Verbatim text={c.text} /></span>
        </label>
      ))}
    </fieldset>
  );
}

interface Pick {
  verb: "approve" | "deny";
  chosen: ReadonlySet<string>;
  set: (key: string, on: boolean) => void;
  mine: string;
}

function Cases({ title, none, list, now, pick }: { title: string; none: string; list: RuleCase[]; now: number; pick?: Pick }) {
  if (list.length === 0) return <p className="text-sm text-faint">{none}</p>;
  return (
    <fieldset>
      <legend className="text-sm font-semibold">{title}</legend>
      <ul className="mt-1 max-h-60 overflow-y-auto text-sm">
        {list.map((c) => (
          <li key={c.request_id}>
            {pick ? (
              <label className="flex min-h-11 items-start gap-3 rounded-lg px-2 py-2.5 hover:bg-sunk">
                <input type="checkbox" checked={pick.chosen.has(c.request_id)} onChange={(e) => pick.set(c.request_id, e.target.checked)} className="mt-0.5" />
                <span className="min-w-0"><span className="font-medium">{c.request_id === pick.mine ? "This request: " : pick.verb === "deny" ? "Deny it too: " : "Approve it too: "}</span><CaseLine c={c} now={now} /></span>
              </label>
            ) : <div className="px-2 py-1.5"><CaseLine c={c} now={now} /></div>}
          </li>
        ))}
      </ul>
    </fieldset>
  );
}

function CaseLine({ c, now }: { c: RuleCase; now: number }) {
  return (
    <span className="verbatim">
      <code className="font-mono text-[13px]"><Verbatim text={c.input || c.headline} /></code>{c.cut && <span className="text-faint"> (goes on)</span>}{" "}
      <span className="text-faint">asked {clock(c.created_at, now)}</span>{c.outcome && <> <Chip>{outcomes[c.outcome] ?? c.outcome}</Chip></>}
    </span>
  );
}

function words(e: unknown): string {
  return e instanceof Error ? e.message : String(e);
}
