import { X } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { keysOn, setKeysOn } from "../cards/keys";
import { LiveRegion } from "./LiveRegion";
import { Button, Key } from "./controls";

const rows: [string, string][] = [
  ["j, k", "next and previous request"],
  ["Enter", "open a row of the overview"],
  ["x", "select, to decide many at once"],
  ["y", "approve once"],
  ["n", "deny"],
  ["r", "deny with a reason"],
  ["e", "edit, then approve"],
  ["1 to 9", "choose an option"],
  ["Ctrl or Cmd + Enter", "submit what you wrote"],
  ["Esc", "leave a text field; it never answers"],
];

export function Help({ onClose }: { onClose: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  const [on, setOn] = useState(keysOn);
  useEffect(() => {
    const d = box.current;
    d?.showModal?.();
    return () => d?.close?.();
  }, []);
  return (
    <dialog ref={box} aria-label="Keys" onClose={onClose} className="m-auto w-full max-w-md rounded-2xl border border-line bg-card p-5 text-ink shadow-card backdrop:bg-black/40">
      <div className="flex items-center justify-between">
        <h2 className="text-lg font-semibold">Keys</h2>
        <Button small look="quiet" aria-label="Close" onClick={onClose}><X size={16} aria-hidden /></Button>
      </div>
      <p className="mt-1 text-sm text-soft">They act while the focus is in a request and in no text field, a moment after it got there.</p>
      <dl className="mt-3 divide-y divide-line">
        {rows.map(([k, what]) => <div key={k} className="flex items-center justify-between gap-4 py-1.5 text-sm"><dt><Key>{k}</Key><span className="sr-only">{k}</span></dt><dd className="text-right text-soft">{what}</dd></div>)}
      </dl>
      <label className="mt-3 flex min-h-11 items-center gap-3 text-sm">
        <input type="checkbox" checked={on} onChange={(e) => { setOn(e.target.checked); setKeysOn(e.target.checked); }} />Single keys decide
      </label>
      <LiveRegion inside />
    </dialog>
  );
}
