import { Check, CheckCheck, CircleSlash, Clock, MessageSquareText, PackageCheck, PackageX, Undo2, Unplug, X } from "lucide-react";
import type { ComponentType, ReactNode } from "react";
import { type Ack, draftText, type Field, type Item, type Outcome, type Said, unsent as unsentOf } from "@banksman/client";
import { useCards } from "../ui/context";
import { Button, Chip, CopyButton } from "../ui/controls";
import { AgentWords, distinct, PayloadBlock, Verbatim } from "./blocks";
import { Ordered } from "./unseen";
import { useDraft } from "./useDraft";
import { clock, isGood, receiptLine } from "./words";

const icons: Record<Outcome, ReactNode> = {
  allowed: <Check size={18} />,
  answered: <Check size={18} />,
  denied: <X size={18} />,
  clarify: <MessageSquareText size={18} />,
  dismissed: <CircleSlash size={18} />,
  expired: <Clock size={18} />,
  cancelled: <Undo2 size={18} />,
  orphaned: <Unplug size={18} />,
  invalid: <CircleSlash size={18} />,
};

/** How an answer of a kind reads on its receipt; a kind without one has the receipt's line. */
export const answerViews: Record<string, ComponentType<{ item: Item }>> = { question: Answers, form: Content };

export interface ReceiptProps {
  item: Item;
  me: boolean;
  lost: boolean;
  /** What this page has sent about it. */
  sent?: Said;
  now: number;
  /** Which session, where that is not plain from the place. */
  where?: string;
  /** Gets the whole of an item that the store does not have. */
  fetch?: () => void;
}

/** What became of it: one truthful line, the asked text kept, and the trail at the agent. */
export function Receipt({ item, me, lost, sent, now, where, fetch }: ReceiptProps) {
  const { summary, outcome, decision } = item;
  const [draft] = useDraft(summary.key);
  // The words of one's own answer are in the record, or on their way there; where the
  // server knows of no record they are nowhere else.
  const said = me ? (decision ?? sent) : outcome === undefined && item.load !== "missing" ? sent : undefined;
  const unsent = draftText(said ? unsentOf(draft, said, summary.body?.input) : draft);
  const AnswerView = outcome === "answered" && Object.hasOwn(answerViews, summary.kind) ? answerViews[summary.kind] : undefined;
  return (
    <div data-testid={`receipt-${summary.request_id}`} className="enter min-w-0 space-y-2">
      <div className="flex items-start gap-3">
        <Badge outcome={outcome} />
        <div className="min-w-0 flex-1">
          <p className="verbatim font-semibold">{receiptLine(summary.kind, outcome, decision, me, lost, now, item.load)}</p>
          <p className="verbatim text-sm text-soft"><Ordered text={summary.headline} />{where ? ` · ${where}` : ""}</p>
          {!AnswerView && <Asked item={item} fetch={fetch} />}
          {outcome === "invalid" && (decision?.fields ?? []).length > 0 && <Faults fields={decision!.fields!} />}
          {AnswerView && <AnswerView item={item} />}
          {outcome === "allowed" && decision?.updated_input !== undefined && <Said label="What was approved instead" value={decision.updated_input} />}
          {decision?.message && <p className="verbatim mt-1 text-sm text-soft"><span className="text-faint">{outcome === "cancelled" ? "It said: " : "The agent was told: "}</span><Verbatim text={decision.message} /></p>}
          {decision?.principal.kind === "rule" && decision.comment && <p className="verbatim mt-1 text-sm text-faint"><Verbatim text={decision.comment} /></p>}
          <Trail trail={item.trail} outcome={outcome} now={now} />
        </div>
      </div>
      <div className="ml-9"><Unsent itemKey={summary.key} text={unsent} /></div>
    </div>
  );
}

/** Words that were written and not sent, where there is no field for them any more. */
export function Unsent({ itemKey, text }: { itemKey: string; text: string }) {
  const { drafts } = useCards();
  if (text === "") return null;
  return (
    <div className="rounded-lg border border-line bg-sunk p-3 text-sm">
      <p className="font-medium">What you had written was not sent. It is still here:</p>
      <pre data-testid="unsent" tabIndex={0} aria-label="What you wrote and did not send" className="verbatim mt-1 max-h-60 overflow-y-auto font-sans text-soft">{text}</pre>
      <div className="mt-2 flex gap-2">
        <CopyButton text={text} label="Copy it" />
        <Button small look="quiet" onClick={() => drafts.drop(itemKey)}>Discard it</Button>
      </div>
    </div>
  );
}

export function Badge({ outcome }: { outcome: Outcome | undefined }) {
  return (
    <span aria-hidden className={`mt-0.5 flex size-6 flex-none items-center justify-center rounded-full ${isGood(outcome) ? "bg-green-wash text-green" : "bg-sunk text-soft"}`}>
      {outcome ? icons[outcome] : <Clock size={18} />}
    </span>
  );
}

/** All that was asked, as it stood on the card, whether or not anybody decided it. */
function Asked({ item, fetch }: { item: Item; fetch: (() => void) | undefined }) {
  const { summary } = item;
  const { body } = summary;
  const app = useCards();
  // A list brings no bodies. What was asked is shown as it was on the card, so it is fetched.
  const opened = () => {
    if (body || item.load !== "idle") return;
    if (fetch) fetch();
    else void app.client.load(summary.key);
  };
  const blocks = body?.blocks ?? [];
  const line = blocks.find((b) => b.form === "command" || b.form === "path")?.text ?? summary.tool_input ?? "";
  // Where there is no digest nothing is kept of it, or it is not for this reader.
  if (summary.digest === "" || (summary.kind === "approval" && line === "" && blocks.length === 0)) return null;
  return (
    <details className="group mt-1" onToggle={(e) => { if (e.currentTarget.open) opened(); }}>
      <summary className="flex list-none items-baseline gap-2 rounded text-sm [&::-webkit-details-marker]:hidden max-md:min-h-11 max-md:items-center">
        {line !== "" && <code className="line-clamp-2 min-w-0 font-mono text-[13px] text-ink/80 [overflow-wrap:anywhere] group-open:hidden"><Ordered text={line} /></code>}
        <span className="flex-none text-[13px] text-faint underline underline-offset-2"><span className="group-open:hidden">{line !== "" ? "all of it" : "what was asked"}</span><span className="hidden group-open:inline">fold</span></span>
      </summary>
      <div className="mt-2 space-y-2">
        {body
          ? <Whole item={item} />
          : item.load === "loading" ? <p role="status" className="text-sm text-soft">Fetching the whole request…</p>
          : <>
            {line !== "" && <PayloadBlock block={{ label: "Input", form: "json", text: line }} onSeen={() => undefined} />}
            {(summary.cut || line === "") && <p className="text-sm text-soft">{line === "" ? "It" : "This is its beginning. The whole"} could not be fetched.</p>}
          </>}
      </div>
    </details>
  );
}

export function Whole({ item }: { item: Item }) {
  const { summary } = item;
  const body = summary.body!;
  const blocks = body.blocks ?? [];
  const payload = blocks.filter((b) => b.form !== "text");
  const questions = body.questions ?? [];
  const fields = body.fields ?? [];
  return (
    <>
      {payload.map((b, i) => <PayloadBlock key={i} block={b} cwd={b.form === "command" ? body.cwd : undefined} parts={body.parts} moreParts={body.more_parts} onSeen={() => undefined} />)}
      {payload.length === 0 && summary.tool_input && <PayloadBlock block={{ label: summary.tool_name || "Input", form: "json", text: summary.tool_input }} onSeen={() => undefined} />}
      {questions.map((q) => (
        <div key={q.id} data-asked={q.id} className="text-sm">
          <p className="verbatim font-medium"><Verbatim text={q.question} /></p>
          <ul className="ml-5 list-disc text-soft">
            {(q.options ?? []).map((o) => <li key={o.value} className="verbatim"><Verbatim text={o.label} />{o.description && <span className="text-faint">: <Verbatim text={o.description} /></span>}</li>)}
            {q.allow_other && <li className="text-faint">or an own answer</li>}
          </ul>
        </div>
      ))}
      {fields.length > 0 && (
        <ul className="ml-5 list-disc text-sm text-soft">
          {fields.map((f) => <li key={f.name} className="verbatim"><Verbatim text={f.label} />{f.description && <span className="text-faint">: <Verbatim text={f.description} /></span>}{(f.choices ?? []).length > 0 && <> (<Verbatim text={f.choices!.map((c) => c.label).join(", ")} />)</>}{f.required ? "" : ", optional"}</li>)}
        </ul>
      )}
      {fields.length === 0 && body.schema && <PayloadBlock block={{ label: "What was to be filled in", form: "json", text: body.schema }} onSeen={() => undefined} />}
      <AgentWords parts={distinct([
        ...blocks.filter((b) => b.form === "text").map((b) => ({ label: b.label, text: b.text ?? "" })),
        { label: "", text: summary.title }, { label: "", text: body.message ?? "" }, { label: "Why it asks", text: body.reason ?? "" },
      ], [summary.headline, ...questions.map((q) => q.question), ...payload.map((b) => b.text ?? "")])} />
    </>
  );
}

/** Why a request that nobody was asked about could not be asked. */
function Faults({ fields }: { fields: Field[] }) {
  return (
    <ul data-testid="faults" className="verbatim mt-1 ml-5 list-disc text-sm text-soft">
      {fields.map((f, i) => <li key={i}><code className="font-mono text-[13px]"><Verbatim text={f.field} /></code> <Verbatim text={f.problem} /></li>)}
    </ul>
  );
}

/** One line a question: its chip, and all options with the chosen ones marked. */
function Answers({ item }: { item: Item }) {
  const questions = item.summary.body?.questions ?? [];
  const answers = item.decision?.answers ?? [];
  if (answers.length === 0) return null;
  return (
    <ul className="mt-1.5 space-y-1.5">
      {answers.map((a) => {
        const q = questions.find((x) => x.id === a.question_id);
        const values = a.values ?? [];
        const options = q?.options ?? values.map((v) => ({ value: v, label: v }));
        return (
          <li key={a.question_id} className="flex flex-wrap items-center gap-1.5 text-sm">
            {(q?.header || q?.question) && <Chip tone="accent"><Verbatim text={q.header || q.question} /></Chip>}
            {options.map((o) => {
              const chosen = values.includes(o.value);
              return (
                <span key={o.value} data-chosen={chosen} className={`verbatim inline-flex items-center gap-1 rounded-md border px-2 py-0.5 ${chosen ? "border-green/40 bg-green-wash font-medium text-green" : "border-line text-faint"}`}>
                  {chosen && <Check size={14} aria-label="chosen:" />}<Verbatim text={o.label} />
                </span>
              );
            })}
            {a.other && <span className="verbatim rounded-md border border-green/40 bg-green-wash px-2 py-0.5 text-green">“<Verbatim text={a.other} />”</span>}
          </li>
        );
      })}
    </ul>
  );
}

/** What was filled into a form. */
function Content({ item }: { item: Item }) {
  return item.decision?.content === undefined ? null : <Said label="Answer" value={item.decision.content} />;
}

/** What a person said in JSON, as it stands in the record. */
function Said({ label, value }: { label: string; value: unknown }) {
  return <div className="mt-1.5"><PayloadBlock block={{ label, form: "json", text: typeof value === "string" ? value : JSON.stringify(value, null, 2) }} onSeen={() => undefined} /></div>;
}

/** Decided is not yet done: what the asker said of it. */
export function Trail({ trail, outcome, now }: { trail: Ack[]; outcome: Outcome | undefined; now: number }) {
  const byPerson = outcome === "allowed" || outcome === "denied" || outcome === "answered" || outcome === "clarify" || outcome === "dismissed";
  if (trail.length === 0) return byPerson ? <p className="mt-0.5 text-[13px] text-faint">Stored. The agent has not said yet that it knows; some never do.</p> : null;
  return (
    <p className="mt-0.5 flex flex-wrap gap-x-4 text-[13px] text-faint">
      {trail.map((t) => (
        <span key={t.stage} data-stage={t.stage} className="verbatim inline-flex items-center gap-1">
          {t.stage === "refused" ? <PackageX size={14} aria-hidden /> : t.stage === "applied" ? <CheckCheck size={14} aria-hidden /> : <PackageCheck size={14} aria-hidden />}
          {stageWord(t.stage, outcome)} {clock(t.at, now)}
          {t.detail ? <>: <Verbatim text={t.detail} /></> : null}
        </span>
      ))}
    </p>
  );
}

/** Only what was allowed is acted on. Of all else the agent was told. */
export function stageWord(stage: string, outcome: Outcome | undefined): string {
  if (stage === "delivered") return "Delivered to the agent";
  if (stage === "refused") return outcome === "allowed" ? "Could not be acted on" : "Could not be told to the agent";
  if (stage !== "applied") return stage;
  switch (outcome) {
    case "allowed": return "Acted on";
    case "denied": return "The agent was told that it may not";
    case "answered": case "clarify": return "The agent has the answer";
    case "dismissed": return "The agent was told that nobody answers";
    case "expired": return "The agent was told that nobody decided in time";
    default: return "The agent knows";
  }
}
