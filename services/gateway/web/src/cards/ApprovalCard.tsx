import { ExternalLink, LockKeyhole, PencilLine } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { beginsOpen, shutting } from "@banksman/client";
import { Always } from "../rules/Always";
import { useCards } from "../ui/context";
import { Button, inputClass, Key } from "../ui/controls";
import { FRESH } from "../ui/fresh";
import { AgentWords, distinct, isLong, PayloadBlock, Verbatim } from "./blocks";
import { Grants, type Scope, ScopeChoice } from "./ScopeChoice";
import { SeenEnd, useNarrow } from "./SeenEnd";
import { useSole } from "./sole";
import { Unseen } from "./unseen";
import type { KindProps } from "./kinds";

/** Consent to a tool call. An unknown kind comes here too, without a way to approve. */
export function ApprovalCard({ item, busy, offline, draft, setDraft, respond, bindKeys, notes }: KindProps) {
  const { summary } = item;
  const body = summary.body;
  const blocks = body?.blocks ?? [];
  const verbs = body?.verbs ?? ["deny"];
  const canAllow = verbs.includes("allow");
  const canDeny = verbs.includes("deny");
  const fixed = summary.tool_name === "OpenLink"; // an edited address is not the page that waits
  const payload = blocks.filter((b) => b.form !== "text");
  const [seen, setSeen] = useState<ReadonlySet<number>>(new Set());
  const [end, setEnd] = useState(false);
  const [mode, setMode] = useState<"" | "reason" | "edit">(beginsOpen(draft, "reason") ? "reason" : beginsOpen(draft, "edit") ? "edit" : "");
  const [scope, setScope] = useState<Scope>("once");
  const [pressed, setPressed] = useState("");
  const id = useId();
  const reasonField = useRef<HTMLTextAreaElement>(null);
  const editField = useRef<HTMLTextAreaElement>(null);
  const reasonButton = useRef<HTMLButtonElement>(null);
  const editButton = useRef<HTMLButtonElement>(null);
  const actions = useRef<HTMLDivElement>(null);

  const unseen = payload.filter((b, i) => isLong(b) && !seen.has(i)).length;
  // On a phone the action bar floats above the text; elsewhere it stands at its end.
  const floats = useNarrow();
  const { embedded } = useCards();
  const locked = !body || unseen > 0 || ((floats || embedded) && !end);
  const off = busy || offline;
  const edit = draft.edit ?? body?.input ?? "";
  const editProblem = mode === "edit" ? jsonProblem(edit) : "";

  const say = (what: string, frame: Parameters<typeof respond>[0]) => {
    setPressed(what);
    respond(frame);
  };
  const allow = () => {
    if (!off && !locked && canAllow) say("allow", { decision: "allow", scope });
  };
  const deny = () => {
    if (!off && canDeny) say("deny", { decision: "deny" });
  };
  const denyWithReason = () => {
    const message = (draft.reason ?? "").trim();
    if (!off && canDeny) say("reason", message ? { decision: "deny", message } : { decision: "deny" });
  };
  const allowEdited = () => {
    if (!off && !locked && canAllow && jsonProblem(edit) === "") say("edit", { decision: "allow", updated_input: edit, scope: "once" }); // a wider scope would be of what the agent asked
  };
  const openReason = () => {
    if (!canDeny) return;
    setMode("reason");
    setDraft(shutting(draft, "reason", false));
    requestAnimationFrame(() => reasonField.current?.focus());
  };
  const openEdit = () => {
    if (!body?.input || !canAllow || fixed || locked) return;
    setDraft({ edit: draft.edit ?? body.input, ...shutting(draft, "edit", false) });
    setMode("edit");
    requestAnimationFrame(() => editField.current?.focus());
  };
  const closeReason = () => {
    setMode("");
    setDraft(draft.reason ? shutting(draft, "reason", true) : { reason: undefined });
    requestAnimationFrame(() => reasonButton.current?.focus());
  };
  const closeEdit = () => {
    setMode("");
    setDraft(edit === body?.input ? { edit: undefined } : shutting(draft, "edit", true));
    requestAnimationFrame(() => editButton.current?.focus());
  };

  const allowByKey = () => {
    // From the keyboard the end may still be off screen: first show it.
    if (!end) actions.current?.scrollIntoView({ block: "end" });
    else allow();
  };

  useEffect(() => {
    bindKeys(mode === "" ? { y: allowByKey, n: deny, r: openReason, e: openEdit } : {});
  });

  const words = distinct([
    ...blocks.filter((b) => b.form === "text").map((b) => ({ label: "", text: b.text ?? "" })),
    { label: "", text: summary.title },
    { label: "", text: body?.message ?? "" },
    { label: "Why it asks", text: body?.reason ?? "" },
  ], [summary.headline, summary.tool_name ?? "", ...payload.map((b) => b.text ?? "")]);
  const scopes = body?.scopes ?? [];
  const kept = [draft.reason ? "your reason" : "", draft.edit !== undefined && draft.edit !== body?.input ? "your edit" : ""].filter((t) => t);
  const own = canAllow ? (body?.options ?? []) : [];

  const lock = canAllow && locked && (
    <p id={`${id}-locked`} data-testid="locked" className="flex items-center justify-end gap-2 text-sm text-soft">
      <LockKeyhole size={15} aria-hidden className="flex-none" />
      {!body ? "Approve opens once the whole request is here." : unseen > 0 ? "Approve opens once you have opened and seen the whole text." : "Approve opens once you have seen the text to its end."}
    </p>
  );
  const denyButton = canDeny && <Button data-testid="deny" disabled={off} busy={busy && pressed === "deny"} onClick={deny} className="max-md:min-w-24">Deny <Key>n</Key></Button>;
  const approveButton = canAllow && (
    <Button look="solid" data-testid="approve" disabled={off || locked} busy={busy && pressed === "allow"} onClick={allow} aria-describedby={locked ? `${id}-locked` : undefined} className="min-w-32">
      {scope === "session" ? "Approve for session" : "Approve once"} <Key>y</Key>
    </Button>
  );
  const quiet = (
    <>
      {canDeny && <Button look="quiet" ref={reasonButton} data-testid="deny-reason" disabled={off} onClick={openReason} tight>Deny with reason <Key>r</Key></Button>}
      {canAllow && !fixed && body?.input !== undefined && (
        <Button look="quiet" ref={editButton} data-testid="edit" disabled={off || locked} onClick={openEdit} tight>Edit <Key>e</Key></Button>
      )}
      {verbs.includes("dismiss") && (
        <Button look="quiet" data-testid="dismiss" disabled={off} onClick={() => say("dismiss", { action: "dismiss" })} title="Close it without an answer; the agent is told so" tight>Dismiss</Button>
      )}
    </>
  );
  const put = kept.length > 0 && (
    <p data-testid="kept" className="flex items-center gap-2 text-sm text-soft"><PencilLine size={15} aria-hidden className="flex-none" />Not sent, and kept: {kept.join(" and ")}.</p>
  );
  const choice = canAllow && (
    <div className="flex flex-wrap items-center justify-end gap-2 max-md:justify-between">
      {scopes.includes("session") && <ScopeChoice scope={scope} setScope={setScope} disabled={off} />}
      <Always summary={summary} disabled={off || locked} />
    </div>
  );
  const grants = canAllow && scope === "session" && <Grants lines={body?.grants ?? []} />;

  return (
    <>
      {body ? (
        <div className="space-y-3">
          {payload.map((b, i) => (
            <PayloadBlock key={i} block={b} cwd={b.form === "command" ? body.cwd : undefined} parts={body.parts} moreParts={body.more_parts} onSeen={() => setSeen((old) => new Set(old).add(i))} />
          ))}
          {body.link && /^https?:\/\//i.test(body.link) && (
            <p className="text-sm">
              <a data-testid="open-link" href={body.link} target="_blank" rel="noopener noreferrer" referrerPolicy="no-referrer" className="inline-flex min-h-9 items-center gap-1.5 font-medium text-accent underline underline-offset-2 max-md:min-h-11"><ExternalLink size={15} aria-hidden />Open it in a new tab</a>{" "}
              <span className="text-soft">Nothing opens by itself, and opening it tells the agent nothing. Approve once you are done there.</span>
            </p>
          )}
          {/* The action bar may float above the text: its end must have been on screen. */}
          <SeenEnd onSeen={() => setEnd(true)} />
          {payload.length === 0 && summary.tool_input && <PayloadBlock block={{ label: summary.tool_name || "Input", form: "json", text: summary.tool_input }} onSeen={() => undefined} />}
        </div>
      ) : (
        summary.tool_input && (
          <div className="opacity-70"><PayloadBlock block={{ label: "Beginning of the input", form: "command", text: summary.tool_input }} onSeen={() => undefined} /></div>
        )
      )}
      {body?.cwd && !payload.some((b) => b.form === "command") && (
        <p className="text-sm text-soft">in <code className="verbatim font-mono text-[13px]"><Verbatim text={body.cwd} /></code></p>
      )}
      <AgentWords parts={words} />
      {notes}
      {mode === "reason" && (
        <div className="space-y-2">
          <label htmlFor={`${id}-reason`} className="block text-sm font-medium">Why not? The agent reads this.</label>
          <textarea
            id={`${id}-reason`} ref={reasonField} data-testid="deny-reason-text" rows={2} className={inputClass} disabled={busy}
            value={draft.reason ?? ""} onChange={(e) => setDraft({ reason: e.target.value })}
            onKeyDown={(e) => {
              if (e.nativeEvent.isComposing || (e.repeat && e.key === "Enter")) {
                // A held Enter began on the button that opened this.
                if (e.repeat) e.preventDefault();
                return;
              }
              if (e.key === "Escape") {
                e.preventDefault();
                e.stopPropagation();
                closeReason();
              } else if (e.key === "Enter" && !e.shiftKey) {
                e.preventDefault();
                e.stopPropagation();
                denyWithReason();
              }
            }}
          />
          <div className="flex flex-wrap justify-between gap-2">
            <Button look="danger" data-testid="deny-reason-send" disabled={off} busy={busy && pressed === "reason"} onClick={denyWithReason}>Deny with this reason <Key>Enter</Key></Button>
            <Button look="quiet" disabled={busy} onClick={closeReason}>Cancel <Key>Esc</Key></Button>
          </div>
        </div>
      )}
      {mode === "edit" && (
        <div className="space-y-2">
          <label htmlFor={`${id}-edit`} className="block text-sm font-medium">The input that will run, as JSON</label>
          <textarea
            id={`${id}-edit`} ref={editField} data-testid="edit-text" spellCheck={false} rows={Math.min(16, edit.split("\n").length + 2)} disabled={busy}
            className={`${inputClass} font-mono text-[13px] leading-5`} aria-invalid={editProblem !== ""} aria-describedby={`${id}-edit-note`}
            value={edit} onChange={(e) => setDraft({ edit: e.target.value })}
            onKeyDown={(e) => {
              if (e.nativeEvent.isComposing) return;
              if (e.key === "Escape") {
                e.preventDefault();
                e.stopPropagation();
                closeEdit();
              } else if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) {
                e.preventDefault();
                e.stopPropagation();
                allowEdited();
              }
            }}
          />
          <p id={`${id}-edit-note`} className="text-sm text-soft">{editProblem || (edit === body?.input ? "Not changed yet." : "Your text is sent exactly as it stands here. The risk above is of what the agent asked, not of your text.")}</p>
          <Unseen text={edit} />
          <div className="flex flex-wrap justify-between gap-2">
            <span className="flex flex-wrap gap-2">
              <Button look="quiet" disabled={busy} onClick={closeEdit}>Cancel <Key>Esc</Key></Button>
              {edit !== body?.input && <Button look="quiet" data-testid="edit-reset" disabled={busy} onClick={() => setDraft({ edit: body?.input })}>As the agent asked</Button>}
            </span>
            <Button look="solid" data-testid="edit-approve" disabled={off || locked || editProblem !== ""} busy={busy && pressed === "edit"} onClick={allowEdited}>Approve the edited input</Button>
          </div>
        </div>
      )}
      {own.length > 0 && mode === "" && (
        <div role="group" aria-label="The agent’s own choices" className="flex flex-wrap gap-2">
          {own.map((o) => (
            <Button key={o.option_id} small data-testid={`option-${o.option_id}`} disabled={off || (o.effect === "allow" && locked)}
              className="max-w-full whitespace-normal! text-left [overflow-wrap:anywhere]" onClick={() => say(o.option_id, { option_id: o.option_id })}>
              <span className="flex-none text-faint">{o.effect === "allow" ? "approves" : "denies"}</span>
              <span className="min-w-0"><Verbatim text={o.name} /></span>
            </Button>
          ))}
        </div>
      )}
      {/* What stands first on the screen comes first for the keyboard too, on a phone and elsewhere. */}
      {mode === "" && !floats && (
        <div ref={actions} data-actions className="space-y-2">
          {lock}
          <div className="flex flex-wrap items-center gap-2">
            {denyButton}
            {quiet}
            <span className="flex-1" />
            {approveButton}
          </div>
          {put}
          {choice}
          {grants}
        </div>
      )}
      {mode === "" && floats && (
        <div ref={actions} data-actions className="contents">
          <Bar above={lock}>{denyButton}{approveButton}</Bar>
          <div className="-mx-2.5 flex flex-wrap justify-between">{quiet}</div>
          {put}
          {choice}
          {grants}
        </div>
      )}
    </>
  );
}

/** Deny and Approve at opposite ends, floating in reach of the thumb; one such bar is live at a time. */
function Bar({ above, children }: { above: ReactNode; children: ReactNode }) {
  const ref = useRef<HTMLDivElement>(null);
  const live = useSole(ref, true);
  // Whoever taps twice on "Decide this one" must not have pressed what comes in its place.
  const [fresh, setFresh] = useState(false);
  const was = useRef(live);
  useEffect(() => {
    if (live === was.current) return;
    was.current = live;
    if (!live) return;
    setFresh(true);
    const timer = setTimeout(() => setFresh(false), FRESH);
    return () => clearTimeout(timer);
  }, [live]);
  if (!live) {
    return (
      <div ref={ref} data-bar="idle" className="-mx-4 border-y border-line px-4 py-2.5">
        <Button className="w-full" onMouseDown={(e) => e.preventDefault()} onClick={(e) => e.currentTarget.closest<HTMLElement>("[data-card]")?.focus({ preventScroll: true })}>Decide this one</Button>
      </div>
    );
  }
  return (
    <div ref={ref} data-bar="live" className="sticky bottom-0 z-10 -mx-4 space-y-2 border-y border-line bg-card px-4 py-2.5">
      {above}
      <div inert={fresh} className="flex justify-between gap-2">{children}</div>
    </div>
  );
}

/** Why a text is no JSON object, without touching it. */
export function jsonProblem(text: string): string {
  if (!text.trim().startsWith("{")) return "This must be a JSON object: it starts with {.";
  try {
    JSON.parse(text);
    return "";
  } catch (e) {
    return `Not valid JSON yet: ${e instanceof Error ? e.message : String(e)}`;
  }
}
