import { MessageSquareText } from "lucide-react";
import { useEffect, useId, useRef, useState } from "react";
import { type Answer, type AnswerDraft, beginsOpen, type Draft, type Option, type Question, shutting } from "@banksman/client";
import { Button, inputClass, Key } from "../ui/controls";
import { focusedIn } from "../ui/place";
import { AgentWords, distinct, Header, Verbatim } from "./blocks";
import type { CardKeys } from "./keys";
import type { KindProps } from "./kinds";

const nothing: AnswerDraft = { values: [], useOther: false, other: "" };

export function answerOf(draft: Draft, q: Question): AnswerDraft {
  return { ...nothing, ...draft.answers?.[q.id] };
}

export function isAnswered(a: AnswerDraft): boolean {
  return a.values.length > 0 || (a.useOther && a.other.trim() !== "");
}

/** The list that is sent: what was chosen, and nothing that was not. */
export function toAnswers(questions: Question[], draft: Draft): Answer[] {
  return questions.flatMap((q) => {
    const a = answerOf(draft, q);
    if (!isAnswered(a)) return [];
    const other = a.useOther && a.other.trim() !== "" ? { other: a.other } : {};
    return [{ question_id: q.id, values: a.values, ...other }];
  });
}

/** Options and free text exclude each other where one answer is wanted. */
export function pick(q: Question, a: AnswerDraft, value: string, on: boolean): AnswerDraft {
  if (!q.multi_select) return { ...a, values: on ? [value] : [], useOther: false };
  const values = on ? [...a.values.filter((v) => v !== value), value] : a.values.filter((v) => v !== value);
  const inOrder = (q.options ?? []).map((o) => o.value).filter((v) => values.includes(v));
  return { ...a, values: inOrder, useOther: q.free_text_exclusive && on ? false : a.useOther };
}

export function pickOther(q: Question, a: AnswerDraft, on: boolean, text = a.other): AnswerDraft {
  const exclusive = !q.multi_select || q.free_text_exclusive === true;
  return { values: on && exclusive ? [] : a.values, useOther: on, other: text };
}

export function QuestionCard({ item, busy, offline, draft, setDraft, respond, bindKeys, notes }: KindProps) {
  const { summary } = item;
  const body = summary.body;
  const questions = body?.questions ?? [];
  const verbs = body?.verbs ?? [];
  const [clarifying, setClarifying] = useState(beginsOpen(draft, "clarify"));
  const [pressed, setPressed] = useState("");
  const root = useRef<HTMLDivElement>(null);
  const clarifyField = useRef<HTMLTextAreaElement>(null);
  const clarifyButton = useRef<HTMLButtonElement>(null);
  const id = useId();
  const off = busy || offline;
  const done = questions.map((q) => isAnswered(answerOf(draft, q)));
  const missing = questions.filter((q, i) => q.required && !done[i]).length;
  const any = done.some(Boolean);
  const ready = missing === 0 && any;

  const change = (q: Question, a: AnswerDraft) => setDraft({ answers: { ...draft.answers, [q.id]: a } });
  const submit = () => {
    if (off || !ready) return;
    setPressed("submit");
    respond({ answers: toAnswers(questions, draft) });
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
  const dismiss = () => {
    if (off) return;
    setPressed("dismiss");
    respond({ action: "dismiss" });
  };

  useEffect(() => {
    const keys: CardKeys = { submit: clarifying ? clarify : submit };
    for (let n = 1; n <= 9; n++) keys[String(n)] = () => choose(n - 1);
    bindKeys(keys);
  });

  // A digit answers the question that has the focus, else the first open one.
  const choose = (index: number) => {
    if (off) return;
    const active = focusedIn(root.current)?.closest<HTMLElement>("[data-question]")?.dataset.question;
    const q = questions.find((x) => x.id === active) ?? questions.find((_, i) => !done[i]) ?? questions[0];
    const option = q?.options?.[index];
    if (!q || !option) return;
    const a = answerOf(draft, q);
    change(q, pick(q, a, option.value, !(q.multi_select && a.values.includes(option.value))));
  };

  return (
    <div ref={root} className="space-y-5">
      <AgentWords parts={distinct([
        { label: "", text: questions.some((q) => summary.title.endsWith(q.question)) ? "" : summary.title },
        { label: "", text: body?.message ?? "" },
        { label: "Why it asks", text: body?.reason ?? "" },
      ], [summary.headline, ...questions.map((q) => q.question)])} />
      {questions.length > 1 && (
        <div role="group" aria-label="Questions" className="flex flex-wrap items-center gap-1.5">
          <span className="mr-1 text-sm text-soft tabular-nums">{done.filter(Boolean).length} of {questions.length} answered</span>
          {questions.map((q, i) => (
            <button key={q.id} type="button" onClick={() => root.current?.querySelector<HTMLElement>(`[data-question="${CSS.escape(q.id)}"] input`)?.focus()}
              className={`min-h-8 rounded-full px-2.5 text-[13px] font-medium max-md:min-h-11 max-md:px-3.5 ${done[i] ? "bg-accent-wash text-accent" : "bg-sunk text-soft hover:text-ink"}`}>
              <span aria-hidden>{done[i] ? "✓ " : ""}</span>{`${i + 1}`}<span className="sr-only">{done[i] ? ", answered" : ", open"}</span>{q.header ? <> <Verbatim text={q.header} /></> : null}
            </button>
          ))}
        </div>
      )}
      {questions.map((q, i) => (
        <QuestionField key={q.id} q={q} n={i} of={questions.length} answer={answerOf(draft, q)} disabled={busy} onChange={(a) => change(q, a)} />
      ))}
      {notes}
      {clarifying && (
        <div className="space-y-2 border-t border-line pt-4">
          <label htmlFor={`${id}-clarify`} className="block text-sm font-medium">Tell the agent something instead of answering</label>
          <textarea id={`${id}-clarify`} ref={clarifyField} data-testid="clarify-text" rows={3} className={inputClass} disabled={busy}
            value={draft.clarify ?? ""} onChange={(e) => setDraft({ clarify: e.target.value })}
            onKeyDown={(e) => {
              if (e.key === "Escape" && !e.nativeEvent.isComposing) {
                e.stopPropagation();
                openClarify(false);
              }
            }} />
          <div className="flex flex-wrap justify-between gap-2">
            <Button look="quiet" disabled={busy} onClick={() => openClarify(false)}>Back to the {questions.length === 1 ? "question" : "questions"}</Button>
            <Button look="solid" data-testid="clarify-send" disabled={off || (draft.clarify ?? "").trim() === ""} busy={busy && pressed === "clarify"} onClick={clarify}>Send these words</Button>
          </div>
        </div>
      )}
      {!clarifying && (
        <div data-actions className="flex flex-wrap items-center gap-2">
          {verbs.includes("dismiss") && (
            <Button look="quiet" tight data-testid="dismiss" disabled={off} busy={busy && pressed === "dismiss"} onClick={dismiss} title="Close it without an answer; the agent is told so">Dismiss</Button>
          )}
          {verbs.includes("clarify") && (
            <Button look="quiet" tight ref={clarifyButton} data-testid="clarify" disabled={off} onClick={() => openClarify(true)}><MessageSquareText size={16} aria-hidden />{draft.clarify ? "Your words, not sent" : "Answer in words instead"}</Button>
          )}
          <span className="flex-1" />
          {!ready && <span className="text-sm text-soft max-md:w-full">{missing > 0 ? (missing === 1 ? "1 answer missing" : `${missing} answers missing`) : "Nothing answered yet"}</span>}
          <Button look="solid" data-testid="submit" disabled={off || !ready} busy={busy && pressed === "submit"} onClick={submit} className="min-w-28 max-md:w-full">
            {busy && pressed === "submit" ? "Sending" : questions.length > 1 ? "Submit answers" : "Submit answer"} <Key>Ctrl Enter</Key>
          </Button>
        </div>
      )}
    </div>
  );
}

function QuestionField({ q, n, of, answer, disabled, onChange }: { q: Question; n: number; of: number; answer: AnswerDraft; disabled: boolean; onChange: (a: AnswerDraft) => void }) {
  const name = useId();
  const options = q.options ?? [];
  const type = q.multi_select ? "checkbox" : "radio";
  return (
    <fieldset data-question={q.id} disabled={disabled} className="min-w-0">
      <legend className="mb-2.5 w-full">
        <span className="flex flex-wrap items-center gap-2">
          {of > 1 && <span className="text-sm text-faint tabular-nums">{n + 1}.</span>}
          {q.header && <Header>{q.header}</Header>}
          {!q.required && <span className="text-[13px] text-faint">optional</span>}
        </span>
        <span className="verbatim mt-1 block text-base font-semibold"><Verbatim text={q.question} /></span>
        {q.multi_select && <span className="text-sm text-soft">Choose any that apply</span>}
      </legend>
      <div className="space-y-2">
        {options.map((o, i) => (
          <OptionRow key={o.value} q={q} o={o} i={i} type={type} name={name} checked={answer.values.includes(o.value)} onPick={(on) => onChange(pick(q, answer, o.value, on))} />
        ))}
        {q.allow_other && (
          <div className={`rounded-lg border p-3 ${answer.useOther ? "border-accent bg-accent-wash" : "border-line"}`}>
            {options.length > 0 && (
              <label className="flex min-h-7 items-center gap-3 font-medium">
                <input type={type} name={name} data-testid={`q-${q.id}-other-toggle`} checked={answer.useOther} onChange={(e) => onChange(pickOther(q, answer, e.target.checked))} />
                {q.multi_select && !q.free_text_exclusive ? "Something else too" : "Something else"}
              </label>
            )}
            <textarea data-testid={`q-${q.id}-other`} rows={1} aria-label={options.length > 0 ? `Your own answer to: ${q.question}` : `Your answer to: ${q.question}`} placeholder="In your own words"
              className={`${inputClass} field-sizing-content max-h-60 min-h-11 ${options.length > 0 ? "mt-2" : ""}`} value={answer.other}
              onChange={(e) => onChange(pickOther(q, answer, e.target.value !== "", e.target.value))} />
          </div>
        )}
      </div>
    </fieldset>
  );
}

function OptionRow({ q, o, i, type, name, checked, onPick }: { q: Question; o: Option; i: number; type: "radio" | "checkbox"; name: string; checked: boolean; onPick: (on: boolean) => void }) {
  const id = useId();
  return (
    <div className={`rounded-lg border ${checked ? "border-accent bg-accent-wash" : "border-line hover:border-edge"}`}>
      <label className="flex min-h-14 items-center gap-3 px-3.5 py-2.5">
        <input type={type} name={name} data-testid={`q-${q.id}-opt-${i}`} checked={checked} aria-describedby={o.description ? id : undefined} onChange={(e) => onPick(e.target.checked)} />
        <span className="min-w-0 flex-1">
          <span className="verbatim block font-medium"><Verbatim text={o.label} /></span>
          {o.description && <span id={id} className="verbatim block text-sm text-soft"><Verbatim text={o.description} /></span>}
        </span>
        {i < 9 && <Key>{i + 1}</Key>}
      </label>
      {o.preview && (
        <pre role="group" tabIndex={0} aria-label={`Preview of ${o.label}`} className="scroll-shadow verbatim mx-3.5 mb-3 max-h-72 overflow-y-auto rounded-lg bg-code px-3 py-2 font-mono text-[13px] leading-5 text-code-ink"><Verbatim text={o.preview} /></pre>
      )}
    </div>
  );
}
