import { TriangleAlert } from "lucide-react";
import { useEffect, useId, useState } from "react";
import { newId } from "@banksman/client";
import { useHelpers } from "../store/helpers";
import { useApp, useAppState } from "../ui/context";
import { Button, inputClass, Notice } from "../ui/controls";
import { useHere } from "../ui/place";
import { sessionHref } from "../ui/route";
import { DRAFT, draftOf, noteStarted, type Wish, wishOf } from "./again";
import { useDraft } from "../cards/useDraft";
import { Attach } from "./Attach";
import { useFiles } from "./kept";
import { modes, runtimeName } from "./modes";
import { Refused } from "./Refused";

const FOLDERS = 12; // offered of those that sessions ran in

export function StartForm() {
  const app = useApp();
  const state = useAppState();
  const { runtimes } = useHelpers();
  const id = useId();
  const [draft, setDraft] = useDraft(DRAFT);
  const wish = wishOf(draft);
  const { files, setFiles, ready, kept } = useFiles(DRAFT, app.drafts.owner);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const here = useHere();
  // The same try keeps its command id: a repeat after silence starts nothing twice.
  const [command, setCommand] = useState(newId);
  useEffect(() => setCommand(newId()), [draft]); // it may be changed in another tab
  const online = state.conn.status === "online";
  const { prompt, cwd } = wish;
  const mode = modes.some((m) => m.value === wish.mode) ? wish.mode : "default";
  const chosen = runtimes.includes(wish.runtime) ? wish.runtime : (runtimes[0] ?? "");
  const note = modes.find((m) => m.value === mode);
  const folders = [...new Set(Object.values(state.sessions).sort((a, b) => b.started_at.localeCompare(a.started_at)).flatMap((s) => (s.cwd ? [s.cwd] : [])))].slice(0, FOLDERS);
  const change = (part: Partial<Wish>) => {
    const next = { ...wish, ...part };
    setDraft(draftOf(next));
  };
  const off = busy || !online || chosen === "" || (prompt.trim() === "" && files.length === 0);

  const start = () => {
    if (off) return;
    setBusy(true);
    setProblem("");
    const place = location.hash;
    const frame = { type: "start_session" as const, command_id: command, prompt, cwd: cwd || state.defaultCwd, mode, runtime: chosen, ...(files.length > 0 ? { attachments: files } : {}) };
    void app.command(frame).then((r) => {
      setBusy(false);
      if ((r.status === "accepted" || r.status === "duplicate") && r.session_id) {
        // Who came back meanwhile may have begun the next one.
        if (wishOf(app.drafts.load(DRAFT)).prompt === prompt) app.drafts.save(DRAFT, {});
        setFiles([]);
        noteStarted(app, r.session_id, { prompt, cwd, mode, runtime: chosen });
        // Whoever has gone elsewhere meanwhile stays there.
        if (here.current && location.hash === place) location.hash = sessionHref(r.session_id);
        return;
      }
      setProblem([r.error ?? "The session did not start.", ...(r.fields ?? []).map((f) => `${f.field} ${f.problem}`)].join(" "));
      if (r.status !== "unavailable") setCommand(newId());
    });
  };

  return (
    <div className="mx-auto w-full max-w-3xl px-4 py-6 md:px-8">
      <h1 className="text-xl font-semibold">New session</h1>
      <form className="mt-5 space-y-5" onSubmit={(e) => { e.preventDefault(); start(); }}>
        <div className="space-y-1.5">
          <label htmlFor={`${id}-prompt`} className="block text-sm font-medium">What should the agent do?</label>
          <textarea id={`${id}-prompt`} data-testid="start-prompt" rows={5} className={inputClass} value={prompt} readOnly={busy}
            onChange={(e) => change({ prompt: e.target.value })}
            onKeyDown={(e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) start(); }} />
          <Attach list={files} onChange={(list) => { setFiles(list); setCommand(newId()); }} kept={kept} disabled={busy || !ready} />
        </div>
        <div className="grid gap-5 sm:grid-cols-2">
          <div className="space-y-1.5 sm:col-span-2">
            <label htmlFor={`${id}-cwd`} className="block text-sm font-medium">Working directory</label>
            <input id={`${id}-cwd`} data-testid="start-cwd" aria-describedby={`${id}-cwd-note`} list={`${id}-folders`} className={`${inputClass} min-h-11 font-mono text-sm`} value={cwd} placeholder={state.defaultCwd || "/path/on/the/worker"} onChange={(e) => change({ cwd: e.target.value })} spellCheck={false} autoCapitalize="off" autoComplete="off" />
            <datalist id={`${id}-folders`}>{folders.map((f) => <option key={f} value={f} />)}</datalist>
            <p id={`${id}-cwd-note`} className="text-sm text-soft">{cwd === "" && state.defaultCwd ? "Left empty it is the one in grey. " : ""}It has to exist on the machine of the worker.</p>
          </div>
          <div className="space-y-1.5">
            <label htmlFor={`${id}-mode`} className="block text-sm font-medium">Permission mode</label>
            <select id={`${id}-mode`} data-testid="start-mode" className={`${inputClass} min-h-11`} value={mode} onChange={(e) => change({ mode: e.target.value })}>
              {modes.map((m) => <option key={m.value} value={m.value}>{m.label}</option>)}
            </select>
            {mode === "bypassPermissions" ? <Notice tone="red" icon={<TriangleAlert size={16} />}>{note?.note}</Notice> : <p className="text-sm text-soft">{note?.note}</p>}
          </div>
          <div className="space-y-1.5">
            <label htmlFor={`${id}-runtime`} className="block text-sm font-medium">Runtime</label>
            <select id={`${id}-runtime`} data-testid="start-runtime" className={`${inputClass} min-h-11`} value={chosen} disabled={runtimes.length === 0} onChange={(e) => change({ runtime: e.target.value })}>
              {runtimes.length === 0 && <option value="">none</option>}
              {runtimes.map((r) => <option key={r} value={r}>{runtimeName(r)}</option>)}
            </select>
            {runtimes.length === 0 && online && <p role="status" data-testid="no-worker" className="text-sm text-soft">No worker is connected, so no session can start now. “banksman up” brings one. What you write here is kept, and this page notices when one comes.</p>}
          </div>
        </div>
        {problem !== "" && <Refused words={problem} />}
        <div className="flex justify-end">
          <Button type="submit" look="solid" data-testid="start-submit" busy={busy} disabled={off} className="max-md:w-full">Start session</Button>
        </div>
      </form>
    </div>
  );
}
