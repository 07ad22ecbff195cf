// "Always", beside Approve: a menu of true scopes. Each opens the sheet that shows
// what the rule would let through; nothing is made by the menu itself.
import { ChevronDown } from "lucide-react";
import { type KeyboardEvent, useContext, useEffect, useId, useRef, useState } from "react";
import type { Summary } from "@banksman/client";
import { AppContext } from "../ui/context";
import { Button } from "../ui/controls";
import { focusedIn } from "../ui/place";
import { openSheet, type Start } from "./open";

/** Tools that no rule may decide. */
const READ_EACH_TIME = ["ExitPlanMode", "OpenLink"];

/** Hours that a rule lasts when nothing else is chosen. */
const DEFAULT_HOURS = 8;

export function Always({ summary, disabled }: { summary: Summary; disabled: boolean }) {
  const app = useContext(AppContext);
  const [open, setOpen] = useState(false);
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!open) return;
    box.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const away = (e: Event) => {
      if (e.target instanceof Node && !box.current?.contains(e.target)) setOpen(false);
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  // A rule cannot be made from another page's frame, nor for what only people allow.
  if (!app || summary.kind !== "approval" || READ_EACH_TIME.includes(summary.tool_name ?? "")) return null;

  const allowing: { start: Start; text: string; note: string }[] = [
    { start: { scope: "session", lasts: DEFAULT_HOURS * 3600 }, text: "In this session…", note: `for ${DEFAULT_HOURS} hours at most` },
    ...(summary.project_id ? [{ start: { scope: "project" as const, lasts: DEFAULT_HOURS * 3600 }, text: `In the project ${summary.project_id}…`, note: `for ${DEFAULT_HOURS} hours` }] : []),
    { start: { scope: "session", lasts: 3600 }, text: "Choose…", note: "what, where and how long" },
  ];
  const items = [
    // What is critical only people allow.
    ...(summary.risk === "critical" ? [] : allowing),
    { start: { scope: "session" as const, lasts: DEFAULT_HOURS * 3600, effect: "deny" as const }, text: "Always deny such requests…", note: "they come to nobody; the agent is told" },
  ];
  const close = (focus = true) => {
    setOpen(false);
    if (focus) button.current?.focus();
  };
  const onKeyDown = (e: KeyboardEvent) => {
    const list = [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = list.indexOf(focusedIn(list[0] ?? document.body) as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: list.length - 1 }[e.key];
    if (to !== undefined) list[(to + list.length) % list.length]?.focus();
    else if (e.key === "Escape") close();
    else if (e.key === "Tab") close(false);
    // The card's own keys have no say in a menu.
    if (e.key !== "Tab" && e.key !== "Enter" && e.key !== " ") e.preventDefault();
    e.stopPropagation();
  };

  return (
    <div ref={box} className="relative ml-auto">
      <Button ref={button} small data-testid="always" disabled={disabled} aria-haspopup="menu" aria-expanded={open} aria-controls={open ? id : undefined} onClick={() => setOpen(!open)}>
        Always… <ChevronDown size={15} aria-hidden />
      </Button>
      {open && (
        <div id={id} role="menu" aria-label="Make a rule" onKeyDown={onKeyDown} className="absolute right-0 bottom-full z-20 mb-1.5 w-64 max-w-[80vw] rounded-xl border border-edge/60 bg-card p-1 shadow-card">
          {items.map((it) => (
            <button key={it.text} type="button" role="menuitem" tabIndex={-1} onClick={() => { setOpen(false); openSheet({ summary, start: it.start, from: button.current }); }}
              className="block min-h-11 w-full rounded-lg px-3 py-1.5 text-left hover:bg-sunk focus:bg-sunk">
              <span className="verbatim block font-medium">{it.text}</span>
              <span className="block text-[13px] text-faint">{it.note}</span>
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
