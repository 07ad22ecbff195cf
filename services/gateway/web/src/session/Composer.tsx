import { SendHorizontal } from "lucide-react";
import { useEffect, useId, useRef, useState } from "react";
import { newId } from "@banksman/client";
import { useApp, useAppState } from "../ui/context";
import { Button, Problem } from "../ui/controls";
import { useDraft } from "../cards/useDraft";
import { Attach } from "./Attach";
import { useFiles } from "./kept";

/** The message input of a session. It gives its place to whatever waits for an answer. */
export function Composer({ session, blocked, onFocusChange }: { session: string; blocked: boolean; onFocusChange: (has: boolean) => void }) {
  const app = useApp();
  const online = useAppState().conn.status === "online";
  const draftKey = `message:${session}`;
  const [{ text = "" }, setDraft] = useDraft(draftKey);
  const { files, setFiles, ready, kept } = useFiles(draftKey, app.drafts.owner);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [command, setCommand] = useState(newId);
  const id = useId();
  useEffect(() => setCommand(newId()), [text]); // it may be changed in another tab
  const off = busy || blocked || !online || (text.trim() === "" && files.length === 0);

  const now = useRef({ files });
  now.current = { files };
  const change = (t: string) => {
    setDraft({ text: t });
  };
  const send = () => {
    if (off) return;
    setBusy(true);
    setProblem("");
    void app.command({ type: "send_message", session_id: session, command_id: command, text, ...(files.length > 0 ? { attachments: files } : {}) }).then((r) => {
      setBusy(false);
      if (r.status === "accepted" || r.status === "duplicate") {
        // What was typed on while it was on its way is the next message.
        // It stands in the draft, also where this page was left and opened again meanwhile.
        const rest = app.drafts.load(draftKey).text ?? "";
        change(rest === text ? "" : rest.startsWith(text) ? rest.slice(text.length).trimStart() : rest);
        if (now.current.files === files) setFiles([]);
        return;
      }
      setProblem([r.error ?? "The message was not taken.", ...(r.fields ?? []).map((f) => `${f.field} ${f.problem}`)].join(" "));
    });
  };
  return (
    <div className="rounded-2xl border border-edge/60 bg-card p-2 shadow-card focus-within:border-accent"
      onFocus={() => onFocusChange(true)} onBlur={(e) => { if (!e.currentTarget.contains(e.relatedTarget)) onFocusChange(false); }}>
      <label htmlFor={id} className="sr-only">Message to the agent</label>
      <textarea id={id} data-testid="message-input" rows={1} value={text} placeholder="Message to the agent" className="field-sizing-content max-h-60 min-h-11 w-full resize-none bg-transparent px-2.5 py-2 outline-none placeholder:text-faint"
        onChange={(e) => change(e.target.value)}
        onKeyDown={(e) => {
          if (e.key !== "Enter" || e.shiftKey || e.nativeEvent.isComposing) return;
          e.preventDefault();
          send();
        }} />
      <div className="flex items-center justify-between gap-2">
        <Attach list={files} onChange={(list) => { setFiles(list); setCommand(newId()); }} kept={kept} disabled={busy || !ready} />
        <Button small look="solid" data-testid="message-send" aria-label="Send message" disabled={off} busy={busy} onClick={send}><SendHorizontal size={16} aria-hidden />Send</Button>
      </div>
      {blocked && <p role="status" className="px-2.5 pt-1 text-sm text-soft">The agent waits for your answer above. What you type here is kept.</p>}
      {problem !== "" && <Problem className="px-2.5 pt-1">{problem}</Problem>}
    </div>
  );
}
