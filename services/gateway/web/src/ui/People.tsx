// People and tokens, for those who manage them. The server says what is possible.
import { type FormEvent, type ReactNode, useCallback, useEffect, useId, useState } from "react";
import { type APIToken, type APITokenList, type CreatedAPIToken, GatewayError, type Grant, type Invitation, type User, type UserList } from "@banksman/client";
import { clock } from "../cards/words";
import { useApp } from "./context";
import { Button, CopyButton, inputClass, SureButton } from "./controls";

const ROLES = ["viewer", "responder", "approver", "admin"];
/** What the server takes. */
const MOST_ROLES = 32;
const notes: Record<string, string> = {
  viewer: "sees that something waits", responder: "answers questions", approver: "decides tool calls", admin: "does all of it",
};

export function grants(list: readonly Grant[]): string {
  return list.map((g) => `${g.role} of ${(g.projects ?? []).includes("*") ? "everything" : (g.projects ?? []).join(", ")}${g.tenants === undefined ? "" : ` in ${g.tenants.join(", ")}`}`).join("; ");
}

function problemOf(e: unknown): string {
  if (e instanceof GatewayError && e.fields.length > 0) return e.fields.map((f) => `${f.field} ${f.problem}`).join("; ");
  return e instanceof Error ? e.message : String(e);
}

/** A list of the server, fetched anew after each change. */
export function useList<T>(get: () => Promise<T[]>): { list: T[] | undefined; problem: string; act: (what: () => Promise<unknown>) => Promise<boolean> } {
  const [list, setList] = useState<T[]>();
  const [problem, setProblem] = useState("");
  const fetchIt = useCallback(() => get().then((l) => { setList(l); setProblem(""); }, (e: unknown) => setProblem(problemOf(e))), [get]);
  useEffect(() => void fetchIt(), [fetchIt]);
  const act = async (what: () => Promise<unknown>) => {
    try {
      await what();
      await fetchIt();
      return true;
    } catch (e) {
      setProblem(problemOf(e));
      return false;
    }
  };
  return { list, problem, act };
}

export function People({ now }: { now: number }) {
  const { gateway } = useApp();
  const get = useCallback(() => gateway.call<UserList>("GET", "/api/users").then((r) => r.users ?? []), [gateway]);
  const { list, problem, act } = useList<User>(get);
  const [invited, setInvited] = useState<Invitation>();
  const [added, setAdded] = useState(0);
  const id = useId();
  const invite = (user: string) => act(async () => setInvited(await gateway.call<Invitation>("POST", `/api/users/${encodeURIComponent(user)}/invite`, { body: {} })));
  const add = (e: FormEvent<HTMLFormElement>) => {
    e.preventDefault();
    const f = new FormData(e.currentTarget);
    const user = String(f.get("id")).trim();
    void act(() => gateway.call("POST", "/api/users", { body: { id: user, name: String(f.get("name")).trim(), roles: grantsOf(f) } })).then((ok) => {
      if (!ok) return;
      setAdded(added + 1);
      void invite(user);
    });
  };
  return (
    <div className="space-y-4">
      {problem !== "" && <p role="alert" className="text-sm font-medium text-ink">{problem}</p>}
      {invited && <Secret title={`The invitation of ${invited.user.name || invited.user.id}: it works once, until ${clock(invited.expires_at, now)}. Hand it over yourself.`} text={invited.url} onDone={() => setInvited(undefined)} />}
      {list && list.length > 0 && (
        <ul className="divide-y divide-line">
          {list.map((u) => (
            <li key={u.id} data-testid={`user-${u.id}`} className="space-y-1 py-3">
              <p className="flex flex-wrap items-baseline gap-x-3"><span className="font-medium">{u.name || u.id}</span><span className="text-sm text-soft">{u.id}{u.disabled ? ", may not sign in" : ""}{u.source === "oidc" ? ", from the issuer" : ""}, {u.passkeys === 1 ? "1 passkey" : `${u.passkeys} passkeys`}</span></p>
              <p className="text-sm text-soft">{grants(u.roles ?? []) || "no role"}</p>
              <p className="flex flex-wrap gap-2">
                {u.source !== "oidc" && <Button small onClick={() => void invite(u.id)}>Invite again</Button>}
                <Button small look="quiet" onClick={() => void act(() => gateway.call("POST", `/api/users/${encodeURIComponent(u.id)}/logout`, { body: {} }))}>Sign out everywhere</Button>
                <Sure label={u.disabled ? "Let in again" : "Shut out"} onSure={() => void act(() => gateway.call("POST", `/api/users/${encodeURIComponent(u.id)}`, { body: { disabled: !u.disabled } }))} />
                {u.passkeys > 0 && <Sure label="Forget passkeys" onSure={() => void act(() => gateway.call("POST", `/api/users/${encodeURIComponent(u.id)}`, { body: { forget_passkeys: true } }))} />}
              </p>
              {u.source !== "oidc" && (
                <form key={grants(u.roles ?? [])} className="flex flex-wrap items-end gap-2" onSubmit={(e) => {
                  e.preventDefault();
                  const roles = grantsOf(new FormData(e.currentTarget));
                  void act(() => gateway.call("POST", `/api/users/${encodeURIComponent(u.id)}`, { body: { roles } }));
                }}>
                  <RoleFields now={u.roles ?? []} />
                  <Button small type="submit">Change to these</Button>
                </form>
              )}
            </li>
          ))}
        </ul>
      )}
      {list?.length === 0 && <p className="text-sm text-soft">Nobody beside the owner of this machine.</p>}
      <form key={added} onSubmit={add} className="flex flex-wrap items-end gap-2 border-t border-line pt-4">
        <Field id={`${id}-id`} label="Id"><input id={`${id}-id`} name="id" required data-testid="user-id" autoCapitalize="off" spellCheck={false} className={`${inputClass} min-h-11`} /></Field>
        <Field id={`${id}-name`} label="Name"><input id={`${id}-name`} name="name" className={`${inputClass} min-h-11`} /></Field>
        <RoleFields />
        <Button type="submit" data-testid="user-add">Invite</Button>
      </form>
    </div>
  );
}

export function Tokens({ now }: { now: number }) {
  const { gateway } = useApp();
  const get = useCallback(() => gateway.call<APITokenList>("GET", "/api/tokens").then((r) => r.tokens ?? []), [gateway]);
  const { list, problem, act } = useList<APIToken>(get);
  const [made, setMade] = useState<CreatedAPIToken>();
  const id = useId();
  const add = (e: FormEvent<HTMLFormElement>) => {
    e.preventDefault();
    const form = e.currentTarget;
    const f = new FormData(form);
    const owner = String(f.get("owner")).trim();
    void act(async () => setMade(await gateway.call<CreatedAPIToken>("POST", "/api/tokens", {
      body: { name: String(f.get("name")).trim(), roles: grantsOf(f), expires_in: Number(f.get("days")) * 86_400, ...(owner === "" ? {} : { owner }) },
    }))).then((ok) => ok && form.reset());
  };
  return (
    <div className="space-y-4">
      {problem !== "" && <p role="alert" className="text-sm font-medium text-ink">{problem}</p>}
      {made && <Secret title={`The token “${made.name}”. It is shown this once.`} text={made.token} onDone={() => setMade(undefined)} />}
      {list && list.length > 0 && (
        <ul className="divide-y divide-line">
          {list.map((t) => {
            const over = t.revoked_at !== undefined || Date.parse(t.expires_at) < now;
            return (
              <li key={t.id} data-testid={`token-${t.id}`} className={`flex flex-wrap items-start justify-between gap-2 py-3 ${over ? "text-faint" : ""}`}>
                <div className="min-w-0">
                  <p className="verbatim font-medium">{t.name}</p>
                  <p className="text-sm text-soft">{grants(t.roles ?? [])}{t.owner ? `; asks as ${t.owner}` : ""}</p>
                  <p className="text-[13px] text-faint">made {clock(t.created, now)} by {t.created_by}, {t.revoked_at ? `revoked ${clock(t.revoked_at, now)}` : `${over ? "expired" : "expires"} ${clock(t.expires_at, now)}`}{t.last_used ? `, last used ${clock(t.last_used, now)}` : ", never used"}</p>
                </div>
                {!over && <Sure label="Revoke" onSure={() => void act(() => gateway.call("DELETE", `/api/tokens/${encodeURIComponent(t.id)}`))} />}
              </li>
            );
          })}
        </ul>
      )}
      {list?.length === 0 && <p className="text-sm text-soft">No token yet.</p>}
      <form onSubmit={add} className="flex flex-wrap items-end gap-2 border-t border-line pt-4">
        <Field id={`${id}-name`} label="What it is for"><input id={`${id}-name`} name="name" required data-testid="token-name" className={`${inputClass} min-h-11`} /></Field>
        <RoleFields />
        <Field id={`${id}-owner`} label="Asks as (if it asks)"><input id={`${id}-owner`} name="owner" autoCapitalize="off" spellCheck={false} className={`${inputClass} min-h-11`} /></Field>
        <Field id={`${id}-days`} label="Valid for"><select id={`${id}-days`} name="days" defaultValue="30" className={`${inputClass} min-h-11`}><option value="1">1 day</option><option value="30">30 days</option><option value="90">90 days</option></select></Field>
        <Button type="submit" data-testid="token-add">Make a token</Button>
      </form>
    </div>
  );
}

function grantsOf(f: FormData): Grant[] {
  const projects = f.getAll("projects").map(String);
  const tenants = f.getAll("tenants").map((t) => names(String(t)));
  return f.getAll("role").map((role, i) => ({ role: String(role), projects: names(projects[i] ?? ""), ...((tenants[i] ?? []).length === 0 ? {} : { tenants: tenants[i] }) }));
}

function names(text: string): string[] {
  return text.split(/[\s,]+/).filter((p) => p !== "");
}

/** As many roles as somebody has, each for projects of its own. */
function RoleFields({ now = [] }: { now?: readonly Grant[] }) {
  const id = useId();
  const [rows, setRows] = useState(() => (now.length > 0 ? now : [{ role: "responder", projects: ["*"] }]).map((g, n) => ({ ...g, n })));
  return (
    <div role="group" aria-label="Roles" className="min-w-64 flex-2 space-y-2">
      {rows.map((g, i) => (
        <div key={g.n} className="flex flex-wrap items-end gap-2">
          <Field id={`${id}-role-${g.n}`} label="Role"><select id={`${id}-role-${g.n}`} name="role" defaultValue={g.role} className={`${inputClass} min-h-11`}>{ROLES.map((r) => <option key={r} value={r} title={notes[r]}>{r}</option>)}</select></Field>
          <Field id={`${id}-projects-${g.n}`} label="Projects, * for all"><input id={`${id}-projects-${g.n}`} name="projects" defaultValue={(g.projects ?? []).join(", ")} required autoCapitalize="off" spellCheck={false} className={`${inputClass} min-h-11`} /></Field>
          <input type="hidden" name="tenants" value={(g.tenants ?? []).join(",")} />
          {rows.length > 1 && <Button small look="quiet" aria-label={`Remove role ${i + 1}`} onClick={() => setRows(rows.filter((r) => r.n !== g.n))}>Remove</Button>}
        </div>
      ))}
      <Button small look="quiet" data-testid="role-more" disabled={rows.length >= MOST_ROLES} onClick={() => setRows([...rows, { role: "viewer", projects: ["*"], n: Math.max(...rows.map((r) => r.n)) + 1 }])}>One more role</Button>
    </div>
  );
}

function Field({ id, label, children }: { id: string; label: string; children: ReactNode }) {
  return <div className="min-w-32 flex-1 space-y-1"><label htmlFor={id} className="block text-sm font-medium">{label}</label>{children}</div>;
}

/** A second press says that the first was meant. */
export function Sure({ label, onSure }: { label: string; onSure: () => void }) {
  const [sure, setSure] = useState(false);
  return sure
    ? <SureButton small look="danger" autoFocus onBlur={() => setSure(false)} onClick={() => { setSure(false); onSure(); }}>{label}: yes</SureButton>
    : <Button small look="quiet" onClick={() => setSure(true)}>{label}</Button>;
}

function Secret({ title, text, onDone }: { title: string; text: string; onDone: () => void }) {
  return (
    <div role="status" className="space-y-2 rounded-xl border border-line bg-sunk p-3">
      <p className="text-sm">{title}</p>
      <div className="flex items-start gap-2 rounded-lg bg-code px-3 py-2 text-code-ink">
        <code data-testid="secret" className="verbatim min-w-0 flex-1 font-mono text-[13px]">{text}</code>
        <CopyButton text={text} onDark />
      </div>
      <Button small onClick={onDone}>Done</Button>
    </div>
  );
}
