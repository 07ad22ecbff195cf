import { TriangleAlert } from "lucide-react";
import { useId, useState } from "react";
import { type Attachment, newId } from "@banksman/client";
import { useApp, useAppState } from "../ui/context";
import { Button, inputClass, Notice } from "../ui/controls";
import { sessionHref } from "../ui/route";
import { Attach } from "./Attach";
import { modes } from "./modes";

const DRAFT = "new-session";

export function StartForm() {
  const app = useApp();
  const state = useAppState();
  const id = useId();
  const [prompt, setPrompt] = useState(() => app.drafts.load(DRAFT).text ?? "");
  const [cwd, setCwd] = useState("");
  const [mode, setMode] = useState("default");
  const [runtime, setRuntime] = useState("");
  const [files, setFiles] = useState<Attachment[]>([]);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  // The same try keeps its command id: a repeat after silence starts nothing twice.
  const [command, setCommand] = useState(newId);
  const online = state.conn.status === "online";
  const chosen = runtime || state.runtimes[0] || "";
  const note = modes.find((m) => m.value === mode);
  const touch = <T,>(set: (v: T) => void) => (v: T) => {
    set(v);
    setCommand(newId());
  };

  const start = () => {
    setBusy(true);
    setProblem("");
    const frame = { type: "start_session" as const, command_id: command, prompt, cwd: cwd || state.defaultCwd, mode, runtime: chosen, ...(files.length > 0 ? { attachments: files } : {}) };
    void app.command(frame).then((r) => {
      setBusy(false);
      if ((r.status === "accepted" || r.status === "duplicate") && r.session_id) {
        app.drafts.save(DRAFT, {});
        location.hash = sessionHref(r.session_id);
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
          <textarea id={`${id}-prompt`} data-testid="start-prompt" required rows={5} className={inputClass} value={prompt}
            onChange={(e) => { touch(setPrompt)(e.target.value); app.drafts.save(DRAFT, { text: e.target.value }); }}
            onKeyDown={(e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && prompt.trim() && online && !busy) start(); }} />
          <Attach list={files} onChange={touch(setFiles)} disabled={busy} />
        </div>
        <div className="grid gap-5 sm:grid-cols-2">
          <div className="space-y-1.5 sm:col-span-2">
            <label htmlFor={`${id}-cwd`} className="block text-sm font-medium">Working directory</label>
            <input id={`${id}-cwd`} data-testid="start-cwd" className={`${inputClass} min-h-11 font-mono text-sm`} value={cwd} placeholder={state.defaultCwd || "/path/on/the/worker"} onChange={(e) => touch(setCwd)(e.target.value)} spellCheck={false} autoCapitalize="off" />
          </div>
          <div className="space-y-1.5">
            <label htmlFor={`${id}-mode`} className="block text-sm font-medium">Permission mode</label>
            <select id={`${id}-mode`} data-testid="start-mode" className={`${inputClass} min-h-11`} value={mode} onChange={(e) => touch(setMode)(e.target.value)}>
              {modes.map((m) => <option key={m.value} value={m.value}>{m.label}</option>)}
            </select>
            {mode === "bypassPermissions" ? <Notice tone="red" icon={<TriangleAlert size={16} />}>{note?.note}</Notice> : <p className="text-sm text-soft">{note?.note}</p>}
          </div>
          <div className="space-y-1.5">
            <label htmlFor={`${id}-runtime`} className="block text-sm font-medium">Runtime</label>
            <select id={`${id}-runtime`} data-testid="start-runtime" className={`${inputClass} min-h-11`} value={chosen} disabled={state.runtimes.length === 0} onChange={(e) => touch(setRuntime)(e.target.value)}>
              {state.runtimes.length === 0 && <option value="">none</option>}
              {state.runtimes.map((r) => <option key={r} value={r}>{r}</option>)}
            </select>
            {state.runtimes.length === 0 && online && <p className="text-sm text-amber">No worker is connected; a session starts when one is.</p>}
          </div>
        </div>
        {problem !== "" && <p role="alert" className="text-sm text-amber">{problem}</p>}
        <div className="flex justify-end">
          <Button type="submit" look="solid" data-testid="start-submit" busy={busy} disabled={busy || !online || prompt.trim() === ""} className="max-md:w-full">Start session</Button>
        </div>
      </form>
    </div>
  );
}
