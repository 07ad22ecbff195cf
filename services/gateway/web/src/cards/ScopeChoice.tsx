import { Verbatim } from "./blocks";

export type Scope = "once" | "session";

/** For what consent holds: true scopes, named, beside the button that gives it. */
export function ScopeChoice({ scope, setScope, disabled }: { scope: Scope; setScope: (s: Scope) => void; disabled: boolean }) {
  return (
    <label className="flex items-center gap-2 text-sm text-soft">
      <span>Approve for</span>
      <select data-testid="scope" value={scope} disabled={disabled} onChange={(e) => setScope(e.target.value === "session" ? "session" : "once")} className="min-h-11 rounded-lg border border-edge/60 bg-card px-2.5 text-ink">
        <option value="once">this call only</option>
        <option value="session">this session</option>
      </select>
    </label>
  );
}

/** What the agent will not ask for again in this session, as it suggested. */
export function Grants({ lines }: { lines: string[] }) {
  return (
    <div data-testid="grants" className="rounded-lg bg-sunk px-3.5 py-2.5 text-sm">
      {lines.length === 0
        ? <p>Beside this call, the agent decides what it does not ask for again in this session.</p>
        : <>
          <p className="font-medium">Beside this call, the agent will not ask again in this session for:</p>
          <ul className="mt-1 list-disc pl-5">{lines.map((l, i) => <li key={i} className="verbatim"><Verbatim text={l} /></li>)}</ul>
        </>}
    </div>
  );
}
