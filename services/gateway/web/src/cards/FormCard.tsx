import { useEffect, useId, useState } from "react";
import { Button, inputClass, Key } from "../ui/controls";
import { jsonProblem } from "./ApprovalCard";
import { AgentWords, PayloadBlock } from "./blocks";
import type { KindProps } from "./kinds";

/** A form: its schema in full, the content as JSON text that is sent as it stands. */
export function FormCard({ item, send, busy, offline, draft, setDraft, respond, bindKeys, notes }: KindProps) {
  const { summary } = item;
  const body = summary.body;
  const verbs = body?.verbs ?? [];
  const [pressed, setPressed] = useState("");
  const [clarifying, setClarifying] = useState(!!draft.clarify);
  const id = useId();
  const off = busy || offline;
  const text = draft.form ?? "";
  const problem = text.trim() === "" ? "Nothing filled in yet." : jsonProblem(text);
  const blocks = body?.blocks ?? [];
  const shown = blocks.length > 0 ? blocks : body?.schema ? [{ label: "Form", form: "json", text: body.schema }] : [];

  const submit = () => {
    if (off || problem !== "") return;
    setPressed("submit");
    respond({ content: text });
  };
  const clarify = () => {
    const message = (draft.clarify ?? "").trim();
    if (off || message === "") return;
    setPressed("clarify");
    respond({ action: "clarify", message });
  };
  useEffect(() => {
    bindKeys({ submit: clarifying ? clarify : submit });
  });

  return (
    <div className="space-y-4">
      <AgentWords parts={[{ label: "", text: summary.title === summary.headline ? "" : summary.title }, { label: "", text: body?.message ?? "" }, { label: "Why it asks", text: body?.reason ?? "" }]} />
      {shown.map((b, i) => <PayloadBlock key={i} block={b} onSeen={() => undefined} />)}
      <div className="space-y-1.5">
        <label htmlFor={`${id}-form`} className="block text-sm font-medium">Your answer, as JSON that fits the form above</label>
        <textarea id={`${id}-form`} data-testid="form-text" rows={6} spellCheck={false} disabled={busy} placeholder={'{\n  "name": "…"\n}'}
          className={`${inputClass} font-mono text-[13px] leading-5`} aria-describedby={`${id}-note`} aria-invalid={send?.state === "refused" || undefined}
          value={text} onChange={(e) => setDraft({ form: e.target.value })} />
        <p id={`${id}-note`} className="text-sm text-soft">{problem || "Your text is sent exactly as it stands here."}</p>
      </div>
      {notes}
      {clarifying && (
        <div className="space-y-2 border-t border-line pt-4">
          <label htmlFor={`${id}-clarify`} className="block text-sm font-medium">Tell the agent something instead</label>
          <textarea id={`${id}-clarify`} data-testid="clarify-text" rows={3} className={inputClass} disabled={busy} value={draft.clarify ?? ""} onChange={(e) => setDraft({ clarify: e.target.value })} />
          <div className="flex flex-wrap justify-between gap-2">
            <Button look="quiet" onClick={() => setClarifying(false)}>Back to the form</Button>
            <Button look="solid" data-testid="clarify-send" disabled={off || (draft.clarify ?? "").trim() === ""} busy={busy && pressed === "clarify"} onClick={clarify}>Send these words</Button>
          </div>
        </div>
      )}
      {!clarifying && (
        <div data-actions className="flex flex-wrap items-center gap-2">
          {verbs.includes("dismiss") && <Button look="quiet" data-testid="dismiss" disabled={off} onClick={() => { setPressed("dismiss"); respond({ action: "dismiss" }); }}>Dismiss</Button>}
          {verbs.includes("clarify") && <Button look="quiet" data-testid="clarify" disabled={off} onClick={() => setClarifying(true)}>Answer in words instead</Button>}
          <span className="flex-1" />
          <Button look="solid" data-testid="submit" disabled={off || problem !== ""} busy={busy && pressed === "submit"} onClick={submit} className="min-w-28 max-md:w-full">Submit form <Key>Ctrl Enter</Key></Button>
        </div>
      )}
    </div>
  );
}
