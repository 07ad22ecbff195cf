import { KeyRound } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import type { CliLoginRequest, Me } from "@banksman/client";
import { keysOn, setKeysOn } from "../cards/keys";
import { useNow } from "../cards/useNow";
import { clock } from "../cards/words";
import { soundOn, tryBell } from "../store/bell";
import { keepSetting, setting } from "../store/settings";
import { useApp, useAppState } from "./context";
import { Button, inputClass, Problem, SureButton } from "./controls";
import { grants, People, Tokens } from "./People";
import { SignIns } from "./SignIns";
import { Notify } from "./Notify";
import { loadTheme, saveTheme, type Theme } from "./theme";

const ways: Record<string, string> = { link: "a link from the terminal", cli: "a terminal", passkey: "a passkey", oidc: "the company's account", token: "a token", test: "a test's token" };

/** Who is signed in here and may do what, and what this browser does. */
export function Settings() {
  const app = useApp();
  const state = useAppState();
  const now = useNow(state.offset);
  const online = state.conn.status === "online";
  const [me, setMe] = useState<Me>();
  const [problem, setProblem] = useState("");
  const [sure, setSure] = useState(false);
  useEffect(() => {
    if (!online) return;
    app.gateway.call<Me>("GET", "/api/me").then((m) => { setMe(m); setProblem(""); }, (e: unknown) => setProblem(text(e)));
  }, [app, online]);
  return (
    <div data-testid="settings" className="mx-auto w-full max-w-3xl space-y-8 px-4 py-6 md:px-8">
      <h1 className="text-xl font-semibold">Settings</h1>
      <Part title="You">
        {problem !== "" && <p role="alert" className="text-sm font-medium text-ink">It could not be fetched: {problem}</p>}
        {!me && problem === "" && <p role="status" className="text-soft">{online ? "Fetching…" : "There is no connection to the server."}</p>}
        {me && (
          <>
            <dl className="grid grid-cols-[auto_1fr] gap-x-6 gap-y-1.5 text-sm">
              <dt className="text-soft">Name</dt><dd className="verbatim font-medium">{me.principal.name || me.principal.id}{me.principal.name && me.principal.name !== me.principal.id ? ` (${me.principal.id})` : ""}</dd>
              <dt className="text-soft">Signed in by</dt><dd>{ways[me.via] ?? me.via}, until {clock(me.expires_at, now)}</dd>
              <dt className="text-soft">May</dt><dd data-testid="roles">{grants(me.roles ?? []) || "nothing yet"}</dd>
              <dt className="text-soft">Passkey</dt><dd>{me.passkey ? "There is one; critical requests ask for it." : "None yet."}</dd>
            </dl>
            <div className="mt-4 flex flex-wrap gap-2">
              {me.principal.kind === "person" && me.via !== "cli" && <a href="/signin.html#passkey" className="inline-flex min-h-11 items-center gap-2 rounded-lg border border-edge/60 px-4 font-medium hover:bg-sunk"><KeyRound size={16} aria-hidden />Add a passkey</a>}
              <Button onClick={app.signOut}>Sign out here</Button>
              {sure
                ? <SureButton look="danger" data-testid="everywhere-sure" autoFocus onBlur={() => setSure(false)} disabled={!online} onClick={() => {
                    app.gateway.call("POST", "/api/logout/everywhere", { body: {} }).then(() => app.signOut(), (e: unknown) => setProblem(text(e)));
                  }}>Sign out of all browsers and terminals</SureButton>
                : <Button look="quiet" data-testid="everywhere" disabled={!online} onClick={() => setSure(true)}>Sign out everywhere</Button>}
            </div>
          </>
        )}
      </Part>
      <Part title="This browser">
        <Browser />
      </Part>
      {me?.principal.kind === "person" && online && <Part title="Notifications"><Notify person={me.principal.id} now={now} /></Part>}
      {me?.principal.kind === "person" && online && <Part title="Where you are signed in"><SignIns now={now} /></Part>}
      {me?.principal.kind === "person" && me.via !== "cli" && online && <Part title="Let a terminal in"><Terminal /></Part>}
      {me?.manages && <Part title="People"><People now={now} /></Part>}
      {me?.manages && <Part title="Tokens of programs"><Tokens now={now} /></Part>}
    </div>
  );
}

export function text(e: unknown): string {
  return e instanceof Error ? e.message : String(e);
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title}>
      <h2 className="mb-3 text-lg font-semibold">{title}</h2>
      <div className="rounded-2xl border border-line bg-card p-5 max-md:p-4">{children}</div>
    </section>
  );
}

/** Finds the terminal that shows a code; the question whether it may come in is asked where all are. */
function Terminal() {
  const app = useApp();
  const [code, setCode] = useState("");
  const [problem, setProblem] = useState("");
  const find = () => {
    const typed = code.toUpperCase().replace(/[^A-Z0-9]/g, "");
    if (typed === "") return;
    setProblem("");
    app.gateway.call<CliLoginRequest>("GET", `/api/cli-logins/${typed}`).then(
      (r) => { setCode(""); app.store.dispatch({ kind: "cli-logins", requests: [r] }); },
      (e: unknown) => setProblem(text(e)),
    );
  };
  return (
    <form className="flex flex-wrap items-end gap-2" onSubmit={(e) => { e.preventDefault(); find(); }}>
      <label className="min-w-48 flex-1 text-sm">
        <span className="mb-1.5 block">The code that <code className="font-mono">banksman login --cli</code> shows in your terminal. Enter none that somebody sent you: their terminal would act as you.</span>
        <input data-testid="cli-code" autoFocus={location.hash === "#/terminal"} value={code} onChange={(e) => setCode(e.target.value)} maxLength={20} autoComplete="off" autoCapitalize="characters" spellCheck={false} className={`${inputClass} min-h-11 font-mono tracking-widest`} />
      </label>
      <Button type="submit" data-testid="cli-find" disabled={code.trim() === ""}>Find it</Button>
      {problem !== "" && <Problem className="basis-full">{problem}</Problem>}
    </form>
  );
}

function Browser() {
  const [theme, setTheme] = useState(loadTheme);
  const [keys, setKeys] = useState(keysOn);
  const [sound, setSound] = useState(soundOn);
  const [view, setView] = useState(() => setting("inbox"));
  return (
    <div className="space-y-1">
      <Choice label="Colours" value={theme} onChange={(v) => { saveTheme(v as Theme); setTheme(v as Theme); }} options={[["system", "as the system"], ["light", "light"], ["dark", "dark"]]} />
      <Choice label="Inbox" value={view} onChange={(v) => { keepSetting("inbox", v); setView(v); }} options={[["", "overview when many wait"], ["cards", "whole cards"], ["rows", "overview"]]} />
      <Switch label="Single keys" note="j, k, y, n, r, e, x and digits act in a request that has the focus." on={keys} onChange={(on) => { setKeysOn(on); setKeys(on); }} />
      <Switch label="Sound" note="Two soft notes when a request begins to wait; once, however many tabs are open." on={sound} onChange={(on) => {
        keepSetting("sound", on ? "on" : "");
        setSound(on);
        if (on) void tryBell();
      }} />
    </div>
  );
}

function Choice({ label, value, options, onChange }: { label: string; value: string; options: [string, string][]; onChange: (v: string) => void }) {
  return (
    <label className="flex min-h-11 items-center justify-between gap-4">
      <span className="font-medium">{label}</span>
      <select value={value} onChange={(e) => onChange(e.target.value)} className="min-h-11 rounded-lg border border-edge/60 bg-card px-2 text-sm">{options.map(([v, t]) => <option key={v} value={v}>{t}</option>)}</select>
    </label>
  );
}

function Switch({ label, note, on, onChange }: { label: string; note: string; on: boolean; onChange: (on: boolean) => void }) {
  return (
    <label className="flex min-h-11 items-center justify-between gap-4 py-1.5">
      <span><span className="block font-medium">{label}</span><span className="block text-sm text-soft">{note}</span></span>
      <input type="checkbox" role="switch" checked={on} onChange={(e) => onChange(e.target.checked)} />
    </label>
  );
}
