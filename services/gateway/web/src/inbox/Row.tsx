import { CircleHelp, Info, OctagonAlert, Rows3, ShieldCheck, TriangleAlert } from "lucide-react";
import { memo, type ReactNode, useEffect, useLayoutEffect, useRef } from "react";
import { type CardState, draftText, type Item, type Say, unsent } from "@banksman/client";
import { Verbatim } from "../cards/blocks";
import { useCardKeys } from "../cards/keys";
import { Ordered } from "../cards/unseen";
import { Badge } from "../cards/Receipt";
import { useOnScreen } from "../cards/useOnScreen";
import { useDraft } from "../cards/useDraft";
import { useNow } from "../cards/useNow";
import { clock, origin, receiptLine, span } from "../cards/words";
import { Button } from "../ui/controls";
import { useFocusOver, useKeptFocus } from "../ui/place";
import { answerWith, peek, rowOffer, selectable } from "./row";

export interface RowProps {
  item: Item;
  card: CardState;
  session: string | undefined;
  offline: boolean;
  selected: boolean;
  now: number;
  /** The server's clock less ours, ms. */
  offset: number;
  onOpen: (key: string) => void;
  onSelect: (key: string) => void;
  onSay: (key: string, say: Say) => void;
  /** It is on the screen, and could decide if it knew the whole request. */
  onNear: (key: string) => void;
}

const marks: Record<string, { icon: ReactNode; word: string; look: string }> = {
  low: { icon: <ShieldCheck size={16} />, word: "Low risk", look: "text-faint" },
  medium: { icon: <Info size={16} />, word: "Medium risk", look: "text-faint" },
  high: { icon: <TriangleAlert size={16} />, word: "High risk", look: "text-ink" },
  critical: { icon: <OctagonAlert size={16} />, word: "Critical risk", look: "text-red" },
};

/** One request in the overview. It decides what it shows whole and of low risk; the rest is opened. */
export const Row = memo(function Row({ item, card, session, offline, selected, now, offset, onOpen, onSelect, onSay, onNear }: RowProps) {
  const { summary } = item;
  const { key } = summary;
  const ref = useRef<HTMLElement>(null);
  // A row that ends keeps its height: what is below must not slide under a finger that taps twice.
  const height = useRef(0);
  useLayoutEffect(() => {
    if (!item.closed) height.current = ref.current?.offsetHeight ?? 0;
  });
  useOnScreen(ref, key, !item.closed);
  useKeptFocus(ref, card === "sending");
  useFocusOver(ref, item.closed);
  const offer = rowOffer(summary);
  const lacks = !item.closed && !summary.body && item.load === "idle" && (summary.risk === "low" || summary.kind === "question");
  useEffect(() => {
    const el = ref.current;
    if (!lacks || !el) return;
    if (typeof IntersectionObserver === "undefined") {
      onNear(key);
      return;
    }
    // Before it comes into sight: it may grow by what it learns.
    const o = new IntersectionObserver((entries) => {
      if (entries.some((e) => e.isIntersecting)) onNear(key);
    }, { root: el.closest("[data-scroll]"), rootMargin: "600px 0px" });
    o.observe(el);
    return () => o.disconnect();
  }, [lacks, key, onNear]);
  const busy = card === "sending";
  const off = offline || busy;
  const allow = () => { if (!off) onSay(key, { decision: "allow", scope: "once" }); };
  const deny = () => { if (!off) onSay(key, { decision: "deny" }); };
  const open = () => onOpen(key);
  const keys = useCardKeys(() => {
    if (item.closed) return {};
    const toggle = selectable(item) ? () => onSelect(key) : undefined;
    return offer.may === "approve" ? { Enter: open, y: allow, n: deny, x: toggle } : { Enter: open, y: open, n: open, r: open, e: open, x: toggle };
  });
  const attributes = { "data-card": "", "data-row": "", "data-testid": `row-${summary.request_id}`, "data-state": card, "data-kind": summary.kind };

  if (item.closed) {
    return (
      <article {...attributes} {...keys} ref={ref} style={height.current > 0 ? { minHeight: height.current } : undefined} tabIndex={-1} aria-label={summary.headline} className="flex min-h-16 items-center gap-3 px-4 py-2.5">
        <Badge outcome={item.outcome} />
        <p className="min-w-0 flex-1 text-sm"><span className="verbatim font-semibold">{receiptLine(summary.kind, item.outcome, item.decision, card === "confirmed", card === "lost", now, item.load)}</span> <span className="verbatim text-soft"><Ordered text={summary.headline} /></span><Kept itemKey={key} item={item} /></p>
        <Button small look="quiet" aria-label={`Show ${summary.headline}`} onClick={open}>Show</Button>
      </article>
    );
  }
  const question = summary.kind !== "approval";
  const mark = question ? { icon: <CircleHelp size={16} />, word: "Question", look: "text-faint" } : marks[summary.risk];
  return (
    <article {...attributes} {...keys} ref={ref} tabIndex={0} aria-label={summary.headline}
      onKeyDown={(e) => {
        // On a button it presses that.
        if (e.key === "Enter" && !e.ctrlKey && !e.metaKey && e.target !== e.currentTarget) return;
        keys.onKeyDown(e);
      }}
      className={`flex min-h-16 scroll-mt-4 scroll-mb-24 flex-wrap items-start gap-x-3 gap-y-2 px-4 py-2.5 ${selected ? "bg-accent-wash" : ""}`}>
      {selectable(item) ? (
        <label className="-m-2 flex size-11 flex-none items-center justify-center">
          <input type="checkbox" checked={selected} onChange={() => onSelect(key)} data-testid={`select-${summary.request_id}`} />
          <span className="sr-only">Select: {summary.headline}</span>
        </label>
      ) : <span className="-m-2 size-11 flex-none max-md:hidden" />}
      <div className="min-w-0 flex-1 md:basis-72">
        <p className="flex items-start gap-2 font-medium">
          {mark && <span className={`mt-0.5 flex-none ${mark.look}`} title={mark.word}>{mark.icon}<span className="sr-only">{mark.word}: </span></span>}
          <span className="verbatim min-w-0"><Ordered text={summary.headline} /></span>
        </p>
        {offer.may === "approve" && (
          <p className="mt-1 text-sm">
            <code data-whole className="verbatim rounded bg-code px-1.5 py-0.5 font-mono text-[13px] text-code-ink [box-decoration-break:clone]"><Ordered text={offer.block.text ?? ""} /></code>
            {offer.notes.map((t, i) => <span key={i} className="verbatim ml-2 text-soft"><Verbatim text={t} /></span>)}
          </p>
        )}
        {offer.may === "answer" && <p className="mt-1 text-sm"><Verbatim text={offer.question.header ? `${offer.question.header}: ` : ""} /><span className="verbatim font-medium"><Verbatim text={offer.question.question} /></span></p>}
        {offer.may === "look" && peek(summary) !== "" && <p aria-hidden className="mt-1 truncate font-mono text-[13px] text-soft">{peek(summary)}</p>}
        <p className="mt-0.5 text-[13px] text-faint">
          {origin(summary, session).join(" · ")}
          {" · "}{clock(summary.created_at, now)}
          {summary.expires_at && <Left until={summary.expires_at} offset={offset} />}
          {card === "unsure" && <span className="font-medium text-ink"> · No word from the server yet; you can send it again.</span>}
          {card === "refused" && <span className="font-medium text-ink"> · Not taken. Open it to read why.</span>}
          {busy && <span> · Sent…</span>}
        </p>
        {offer.may === "answer" && (
          <div role="group" aria-label={offer.question.question} className="mt-2 flex flex-wrap gap-2">
            {(offer.question.options ?? []).map((o, i) => (
              <Button key={o.value} small disabled={off} data-testid={`row-${summary.request_id}-opt-${i}`} className="max-w-full whitespace-normal! text-left"
                onClick={() => onSay(key, { answers: answerWith(offer.question, o.value) })}>
                <span><Verbatim text={o.label} />{o.description && <span className="block text-[13px] font-normal text-soft"><Verbatim text={o.description} /></span>}</span>
              </Button>
            ))}
          </div>
        )}
      </div>
      <div className="ml-auto flex flex-none items-center gap-2 max-md:w-full max-md:justify-between">
        {offer.may === "approve" && <Button small disabled={off} data-testid={`row-${summary.request_id}-deny`} onClick={deny}>Deny</Button>}
        <Button small look="quiet" data-testid={`row-${summary.request_id}-open`} className={offer.may === "approve" ? "" : "max-md:w-full max-md:border max-md:border-edge/60"} aria-label={`${offer.may === "look" ? "Review" : "Open"}: ${summary.headline}`} onClick={open}><Rows3 size={15} aria-hidden />{offer.may === "look" ? "Review" : "Open"}</Button>
        {offer.may === "approve" && <Button small look="solid" disabled={off} busy={busy} data-testid={`row-${summary.request_id}-approve`} onClick={allow}>Approve once</Button>}
      </div>
    </article>
  );
});

/** By a clock of its own: the others need no drawing for it. */
function Left({ until, offset }: { until: string; offset: number }) {
  const left = Date.parse(until) - useNow(offset, until);
  return <span className={left < 120_000 ? "font-semibold text-amber" : ""}>{left > 0 ? `, ${span(left)} left` : ", time is up"}</span>;
}

/** Words that went with no answer stand in the whole receipt. */
function Kept({ itemKey, item }: { itemKey: string; item: Item }) {
  const [draft] = useDraft(itemKey);
  const words = draftText(item.decision ? unsent(draft, item.decision, item.summary.body?.input) : draft);
  return words === "" ? null : <span className="text-ink"> What you had written was not sent: Show has it.</span>;
}
