import { useEffect, useId, useRef, useState } from "react";
import { beginsOpen, type FormField, shutting } from "@banksman/client";
import { Button, inputClass, Key } from "../ui/controls";
import { jsonProblem } from "./ApprovalCard";
import { AgentWords, distinct, PayloadBlock, Verbatim } from "./blocks";
import { type FieldValues, formContent } from "./form";
import type { KindProps } from "./kinds";
import { Unseen } from "./unseen";

/** A form: its fields where the server could tell them, else its schema and JSON text that is sent as it stands. */
export function FormCard({ item, send, busy, offline, draft, setDraft, respond, bindKeys, notes }: KindProps) {
  const { summary } = item;
  const body = summary.body;
  const verbs = body?.verbs ?? [];
  const fields = body?.fields ?? [];
  const [asJson, setAsJson] = useState(beginsOpen(draft, "form"));
  const [pressed, setPressed] = useState("");
  const [clarifying, setClarifying] = useState(beginsOpen(draft, "clarify"));
  const clarifyField = useRef<HTMLTextAreaElement>(null);
  const clarifyButton = useRef<HTMLButtonElement>(null);
  const id = useId();
  const off = busy || offline;
  const json = asJson || fields.length === 0;
  const values: FieldValues = draft.fields ?? {};
  const filled = formContent(fields, values);
  const text = json ? (draft.form ?? "") : filled.text;
  const missing = filled.missing.length;
  const problem = json
    ? (text.trim() === "" ? "Nothing filled in yet." : jsonProblem(text))
    : missing > 0 ? (missing === 1 ? "1 field missing" : `${missing} fields missing`)
    : Object.keys(filled.problems).length > 0 ? "Look at the marked fields" : filled.empty ? "Nothing filled in yet" : "";
  const blocks = body?.blocks ?? [];
  const shown = blocks.length > 0 ? blocks : body?.schema ? [{ label: "Form", form: "json", text: body.schema }] : [];
  const told = (name: string) => (send?.state === "refused" ? send.fields?.find((f) => f.field === `content.${name}`)?.problem : undefined);

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
  const openClarify = (open: boolean) => {
    setClarifying(open);
    setDraft(shutting(draft, "clarify", !open && !!draft.clarify));
    requestAnimationFrame(() => (open ? clarifyField : clarifyButton).current?.focus());
  };
  useEffect(() => {
    bindKeys({ submit: clarifying ? clarify : submit });
  });

  return (
    <div className="space-y-4">
      <AgentWords parts={distinct([{ label: "", text: summary.title }, { label: "", text: body?.message ?? "" }, { label: "Why it asks", text: body?.reason ?? "" }], [summary.headline])} />
      {json ? (
        <>
          {shown.map((b, i) => <PayloadBlock key={i} block={b} onSeen={() => undefined} />)}
          <div className="space-y-1.5">
            <label htmlFor={`${id}-form`} className="block text-sm font-medium">Your answer, as JSON that fits the form above</label>
            <textarea id={`${id}-form`} data-testid="form-text" rows={6} spellCheck={false} disabled={busy} placeholder={'{\n  "name": "…"\n}'}
              className={`${inputClass} font-mono text-[13px] leading-5`} aria-describedby={`${id}-note`} aria-invalid={send?.state === "refused" || undefined}
              value={text} onChange={(e) => setDraft({ form: e.target.value })} />
            <p id={`${id}-note`} className="text-sm text-soft">{problem || "Your text is sent exactly as it stands here."}</p>
            <Unseen text={text} />
            {!filled.empty && text !== filled.text && <p className="text-sm text-soft">The fields say something else. <button type="button" className="min-h-9 text-accent underline-offset-2 hover:underline max-md:min-h-11" disabled={busy} onClick={() => setDraft({ form: filled.text })}>Put in what they say</button></p>}
          </div>
        </>
      ) : (
        fields.map((f) => (
          <Field key={f.name} f={f} value={Object.hasOwn(values, f.name) ? values[f.name] : undefined} disabled={busy} problem={filled.problems[f.name] ?? told(f.name)}
            onChange={(v) => setDraft({ fields: { ...values, [f.name]: v } })} />
        ))
      )}
      {fields.length > 0 && !clarifying && (
        <button type="button" className="min-h-9 text-sm text-accent underline-offset-2 hover:underline max-md:min-h-11" disabled={busy} onClick={() => {
          // JSON that nobody wrote follows the fields; what somebody wrote waits for them.
          const untouched = asJson && draft.form === filled.text;
          if (!asJson && !draft.form && !filled.empty) setDraft({ form: filled.text, ...shutting(draft, "form", false) });
          else setDraft({ ...(untouched ? { form: undefined } : {}), ...shutting(draft, "form", asJson && !untouched && !!draft.form) });
          setAsJson(!asJson);
        }}>{asJson ? "Back to the fields" : draft.form ? "Back to the JSON that you wrote" : "Write it as JSON instead"}</button>
      )}
      {notes}
      {clarifying && (
        <div className="space-y-2 border-t border-line pt-4">
          <label htmlFor={`${id}-clarify`} className="block text-sm font-medium">Tell the agent something instead</label>
          <textarea id={`${id}-clarify`} ref={clarifyField} data-testid="clarify-text" rows={3} className={inputClass} disabled={busy} value={draft.clarify ?? ""} onChange={(e) => setDraft({ clarify: e.target.value })}
            onKeyDown={(e) => {
              if (e.key === "Escape" && !e.nativeEvent.isComposing) {
                e.stopPropagation();
                openClarify(false);
              }
            }} />
          <div className="flex flex-wrap justify-between gap-2">
            <Button look="quiet" disabled={busy} onClick={() => openClarify(false)}>Back to the form</Button>
            <Button look="solid" data-testid="clarify-send" disabled={off || (draft.clarify ?? "").trim() === ""} busy={busy && pressed === "clarify"} onClick={clarify}>Send these words</Button>
          </div>
        </div>
      )}
      {!clarifying && (
        <div data-actions className="flex flex-wrap items-center gap-2">
          {verbs.includes("dismiss") && <Button look="quiet" tight data-testid="dismiss" disabled={off} onClick={() => { setPressed("dismiss"); respond({ action: "dismiss" }); }}>Dismiss</Button>}
          {verbs.includes("clarify") && <Button look="quiet" tight ref={clarifyButton} data-testid="clarify" disabled={off} onClick={() => openClarify(true)}>{draft.clarify ? "Your words, not sent" : "Answer in words instead"}</Button>}
          <span className="flex-1" />
          {!json && problem !== "" && <span className="text-sm text-soft max-md:w-full">{problem}</span>}
          <Button look="solid" data-testid="submit" disabled={off || problem !== ""} busy={busy && pressed === "submit"} onClick={submit} className="min-w-28 max-md:w-full">Submit form <Key>Ctrl Enter</Key></Button>
        </div>
      )}
    </div>
  );
}

interface FieldProps {
  f: FormField;
  value: string | string[] | undefined;
  disabled: boolean;
  problem: string | undefined;
  onChange: (v: string | string[]) => void;
}

function Field({ f, value, disabled, problem, onChange }: FieldProps) {
  const id = useId();
  const choices = f.type === "boolean" ? [{ json: "true", label: "Yes" }, { json: "false", label: "No" }] : (f.choices ?? []);
  const about = `${id}-about`;
  const hint = [f.description, bounds(f), f.suggested ? `Suggested: ${f.suggested}` : ""].filter((x) => x).join(". ");
  const note = (hint || problem) && (
    <span id={about} className="block text-sm font-normal">
      {hint && <span className="verbatim text-soft"><Verbatim text={hint} /></span>}
      {problem && <span role="alert" className="verbatim block font-medium text-ink">{f.label} {problem}</span>}
    </span>
  );
  const name = <span className="verbatim"><Verbatim text={f.label} />{!f.required && <>{" "}<span className="ml-1 text-[13px] font-normal text-faint">optional</span></>}</span>;
  if (choices.length > 0) {
    const several = f.type === "array";
    const chosen = typeof value === "string" ? [value] : (value ?? []);
    return (
      <fieldset disabled={disabled} aria-describedby={note ? about : undefined} className="min-w-0">
        <legend className="mb-2 w-full font-medium">{name}{several && <span className="ml-2 text-sm font-normal text-soft">Choose any that apply</span>}{note}</legend>
        <div className="grid gap-2 sm:grid-cols-2">
          {choices.map((c, i) => {
            const on = chosen.includes(c.json);
            return (
              <label key={c.json} className={`flex min-h-11 items-center gap-3 rounded-lg border px-3.5 py-2 ${on ? "border-accent bg-accent-wash" : "border-line hover:border-edge"}`}>
                <input type={several ? "checkbox" : "radio"} name={id} data-testid={`field-${f.name}-${i}`} checked={on}
                  onChange={(e) => onChange(several ? choices.map((x) => x.json).filter((x) => (x === c.json ? e.target.checked : chosen.includes(x))) : c.json)} />
                <span className="verbatim min-w-0"><Verbatim text={c.label} /></span>
              </label>
            );
          })}
        </div>
        {!f.required && chosen.length > 0 && !several && <button type="button" className="mt-1 min-h-9 text-sm text-accent underline-offset-2 hover:underline max-md:min-h-11" onClick={() => onChange("")}>Leave it open</button>}
      </fieldset>
    );
  }
  const text = typeof value === "string" ? value : "";
  const number = f.type === "number" || f.type === "integer";
  const common = {
    id, disabled, value: text, "data-testid": `field-${f.name}`, "aria-describedby": note ? about : undefined, "aria-invalid": problem ? true : undefined, "aria-required": f.required,
  };
  return (
    <div className="space-y-1.5">
      <label htmlFor={id} className="block font-medium">{name}</label>
      {note}
      {number || f.format
        ? <input {...common} className={`${inputClass} min-h-11`} type={inputTypes[f.format ?? ""] ?? "text"} inputMode={number ? "decimal" : undefined} autoComplete="off" onChange={(e) => onChange(e.target.value)} />
        : <textarea {...common} rows={1} className={`${inputClass} field-sizing-content max-h-60 min-h-11`} onChange={(e) => onChange(e.target.value)} />}
    </div>
  );
}

const inputTypes: Record<string, string> = { email: "email", uri: "url", date: "date" };

function bounds(f: FormField): string {
  const number = f.type === "number" || f.type === "integer";
  if (number) {
    const what = f.type === "integer" ? "A whole number" : "A number";
    if (f.minimum && f.maximum) return `${what} from ${f.minimum} to ${f.maximum}`;
    if (f.minimum) return `${what}, at least ${f.minimum}`;
    if (f.maximum) return `${what}, at most ${f.maximum}`;
    return f.type === "integer" ? what : "";
  }
  if (f.format === "date-time") return "A time such as 2026-11-27T14:00:00Z";
  if (f.min_length && f.max_length) return `${f.min_length} to ${f.max_length} characters`;
  if (f.max_length) return `At most ${f.max_length} characters`;
  if (f.min_length && f.min_length > 1) return `At least ${f.min_length} characters`;
  return "";
}
