// What one rule decided, and the form that changes it.
import { type FormEvent, Suspense, useEffect, useId, useRef, useState } from "react";
import type { ChangeRule, Interaction, Rule } from "@banksman/client";
import { Verbatim } from "../cards/blocks";
import { clock } from "../cards/words";
import { useApp } from "../ui/context";
import { Button, Chip, inputClass, Problem } from "../ui/controls";
import { interactionHref } from "../ui/route";
import { later } from "../ui/later";
import type { Start } from "./open";
import { lasting, outcomes } from "./words";

const Sheet = later(() => import("./Sheet").then((m) => m.default));

/** How many decisions a page has. */
const PAGE = 20;

export function Decided({ rule, now }: { rule: Rule; now: number }) {
  const app = useApp();
  const [list, setList] = useState<Interaction[]>([]);
  const [from, setFrom] = useState("");
  const [next, setNext] = useState<string>();
  const [state, setState] = useState<"busy" | "idle" | "failed">("busy");
  useEffect(() => {
    const stop = new AbortController();
    setState("busy");
    app.gateway.decisions({ rule: rule.id, limit: PAGE, ...(from === "" ? {} : { before: from }) }, { signal: stop.signal }).then(
      (page) => {
        if (stop.signal.aborted) return;
        setList((old) => (from === "" ? page.interactions : [...old, ...page.interactions]));
        setNext(page.next);
        setState("idle");
      },
      () => { if (!stop.signal.aborted) setState("failed"); },
    );
    return () => stop.abort();
  }, [app, rule.id, rule.uses, from]);
  return (
    <div className="mt-2 rounded-lg border border-line p-3 text-sm" data-testid="rule-decided">
      {list.length > 0 && (
        <ul aria-label="What this rule decided" className="space-y-1.5">
          {list.map((ix) => (
            <li key={ix.key} className="verbatim">
              <a className="underline" href={interactionHref(ix.key)}><Verbatim text={ix.headline} /></a>{" "}
              <span className="text-faint">{ix.decision ? clock(ix.decision.decided_at, now) : ""}</span> <Chip>{outcomes[ix.outcome ?? ""] ?? ix.outcome}</Chip>
            </li>
          ))}
        </ul>
      )}
      {state === "busy" && <p role="status" className="text-soft">Searching the record…</p>}
      {state === "failed" && <Problem>The record could not be searched.</Problem>}
      {state === "idle" && list.length === 0 && !next && <p className="text-soft">The record has nothing of it that you may see.</p>}
      {state === "idle" && next && <Button small look="quiet" onClick={() => setFrom(next)}>Further back</Button>}
    </div>
  );
}

export function Change({ rule, now, onDone }: { rule: Rule; now: number; onDone: () => void }) {
  const app = useApp();
  const id = useId();
  const [lasts, setLasts] = useState("");
  const [uses, setUses] = useState(rule.max_uses ? String(rule.max_uses) : "");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [matching, setMatching] = useState(false);
  const opener = useRef<HTMLButtonElement>(null);
  const most = uses.trim() === "" ? 0 : Number(uses);
  const bad = !Number.isInteger(most) || most < 0 || (most > 0 && most <= rule.uses);
  const same = lasts === "" && most === (rule.max_uses ?? 0);
  const change = (e: FormEvent) => {
    e.preventDefault();
    if (bad || same || busy) return;
    const wish: ChangeRule = {
      version: rule.version ?? 1, ...(lasts === "" ? {} : { expires_in: Number(lasts) }), ...(most === (rule.max_uses ?? 0) ? {} : { max_uses: most }),
    };
    setBusy(true);
    app.gateway.call("POST", `/api/rules/${encodeURIComponent(rule.id)}`, { body: wish }).then(onDone, (err: unknown) => {
      setBusy(false);
      setProblem(err instanceof Error ? err.message : String(err));
    });
  };
  return (
    <>
    <form onSubmit={change} className="mt-2 space-y-2 rounded-lg border border-line p-3 text-sm" data-testid="rule-changing">
      <div className="flex flex-wrap gap-x-6 gap-y-2">
        <label htmlFor={`${id}-l`}>
          <span className="mb-1 block font-medium">How long, from now</span>
          <select id={`${id}-l`} value={lasts} onChange={(e) => setLasts(e.target.value)} className="min-h-11 rounded-lg border border-edge/70 bg-card px-3">
            <option value="">as it is, until {clock(rule.expires_at, now)}</option>
            {lasting(now, rule.max_expires_in ?? 0).map((l) => <option key={l.text} value={l.seconds}>{l.text}</option>)}
          </select>
        </label>
        <label htmlFor={`${id}-u`}>
          <span className="mb-1 block font-medium">How often at most, in all</span>
          <input id={`${id}-u`} inputMode="numeric" value={uses} placeholder="as often as it matches" aria-invalid={bad} onChange={(e) => setUses(e.target.value)} className={`${inputClass} min-h-11 w-56`} />
          {bad && <span className="mt-1 block font-medium">{rule.uses > 0 ? `A number above ${rule.uses}, or nothing.` : "A number from 1, or nothing."}</span>}
        </label>
      </div>
      {rule.from
        ? <p><Button small ref={opener} data-testid="rule-rematch" onClick={() => setMatching(true)}>What it matches…</Button></p>
        : <p className="text-faint">What it matches stays: it does not know the request that it was made from. Revoke it and make another at a request.</p>}
      <p className="text-faint">What waits now stays with people, unless you choose otherwise.</p>
      {problem !== "" && <Problem>Not changed: {problem}</Problem>}
      <Button small type="submit" disabled={bad || same || busy} busy={busy}>Change it</Button>
    </form>
      {matching && rule.from && (
        <Suspense fallback={<p role="status" className="text-soft">Loading…</p>}>
          <Sheet summary={{ key: rule.from.request_id, digest: rule.from.digest }} rule={rule}
            start={{ scope: rule.match.scope as Start["scope"], lasts: 3600, effect: rule.effect === "deny" ? "deny" : "allow" }}
            onClose={() => { setMatching(false); opener.current?.focus(); onDone(); }} />
        </Suspense>
      )}
    </>
  );
}
