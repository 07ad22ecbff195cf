import { ChevronDown, ChevronUp } from "lucide-react";
import { type PointerEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Card } from "../cards/Card";
import { Verbatim } from "../cards/blocks";
import { useNarrow } from "../cards/SeenEnd";
import { useAppState } from "../ui/context";
import { Button } from "../ui/controls";

/** What has just come up takes no press for so long, in milliseconds. */
const FRESH = 600;
/** A drag of the handle this long is one, in pixels. */
const DRAG = 32;

/**
 * What waits in a session, below its conversation. On a phone there is room for one
 * of the two: the cards are a sheet that is pulled down to a line with the headline,
 * and up again. Pulled down nothing can be decided, because nothing can be read.
 */
export function Dock({ waiting, moved, reading, children }: { waiting: readonly string[]; /** It takes no press at this moment. */ moved: boolean; reading: boolean; children: ReactNode }) {
  const state = useAppState();
  const phone = useNarrow();
  const any = waiting.length > 0;
  const [down, setDown] = useState(false);
  const [fresh, setFresh] = useState(false);
  const id = useId();
  const grip = useRef<HTMLButtonElement>(null);
  const raise = useRef<HTMLButtonElement>(null);
  const from = useRef<number | undefined>(undefined);
  // A request that comes while somebody reads or writes does not push that away.
  const [had, setHad] = useState(any);
  if (any !== had) {
    setHad(any);
    setDown(any && reading);
  }
  useEffect(() => {
    if (!fresh) return;
    const timer = setTimeout(() => setFresh(false), FRESH);
    return () => clearTimeout(timer);
  }, [fresh]);
  const move = (lower: boolean) => {
    setDown(lower);
    if (!lower) setFresh(true);
    requestAnimationFrame(() => (lower ? raise : grip).current?.focus({ preventScroll: true }));
  };
  const drag = {
    onPointerDown: (e: PointerEvent) => { from.current = e.clientY; },
    onPointerUp: (e: PointerEvent) => {
      const by = from.current === undefined ? 0 : e.clientY - from.current;
      from.current = undefined;
      if (by > DRAG && !low) move(true);
      if (by < -DRAG && low) move(false);
    },
    onPointerCancel: () => { from.current = undefined; },
  };
  const low = phone && any && down;
  const first = state.items[waiting[0] ?? ""]?.summary;
  return (
    <div data-scroll data-testid="dock" data-low={low || undefined} className={`flex-none border-t border-line bg-page ${any && !low ? "max-h-[78%] overflow-y-auto max-md:max-h-[86%] max-md:rounded-t-2xl" : ""}`}>
      {phone && any && !low && (
        <button ref={grip} type="button" data-testid="dock-lower" aria-controls={id} aria-expanded {...drag} onClick={() => move(true)}
          className="sticky top-0 z-20 flex min-h-11 w-full touch-none items-center justify-center gap-1.5 rounded-t-2xl border-b border-line bg-page text-sm font-medium text-soft">
          <ChevronDown size={16} aria-hidden />Read the conversation
        </button>
      )}
      <div className={`mx-auto w-full max-w-3xl space-y-3 px-4 py-3 md:px-8 ${moved ? "pointer-events-none" : ""}`}>
        <div id={id} hidden={low} inert={fresh} className="space-y-3">{waiting.map((k) => <Card key={k} itemKey={k} showSession={false} />)}</div>
        {low && first && (
          <div {...drag} className="touch-none space-y-2.5">
            <p className="verbatim font-medium"><Verbatim text={first.headline} />{waiting.length > 1 && <span className="text-soft">, and {waiting.length - 1} more</span>}</p>
            <Button ref={raise} look="solid" data-testid="dock-raise" aria-controls={id} aria-expanded={false} className="w-full" onClick={() => move(false)}><ChevronUp size={16} aria-hidden />Look at {waiting.length > 1 ? "them" : "it"}</Button>
          </div>
        )}
        {children}
      </div>
    </div>
  );
}
