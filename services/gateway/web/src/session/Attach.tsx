import { FileText, Image, Paperclip, X } from "lucide-react";
import { useId, useState } from "react";
import type { Attachment } from "@banksman/client";
import { Problem } from "../ui/controls";
import { ACCEPT, bytesOf, MAX_BYTES, readFiles, size } from "./attachments";

export function Attach({ list, onChange, kept, disabled }: { list: Attachment[]; onChange: (list: Attachment[]) => void; kept: boolean; disabled: boolean }) {
  const [problem, setProblem] = useState("");
  const id = useId();
  return (
    <div className="flex min-w-0 flex-wrap items-center gap-1.5">
      <label htmlFor={id} className="inline-flex min-h-9 items-center gap-2 rounded-lg px-2.5 text-sm font-medium text-soft hover:bg-sunk hover:text-ink has-focus-visible:outline-2 has-focus-visible:outline-accent max-md:min-h-11">
        <Paperclip size={16} aria-hidden />Attach
        <input id={id} type="file" multiple accept={ACCEPT} disabled={disabled} data-testid="attach" className="sr-only" onChange={(e) => {
          const files = [...(e.target.files ?? [])];
          e.target.value = "";
          void readFiles(files, bytesOf(list)).then((r) => {
            setProblem(r.problem);
            if (r.attachments.length > 0) onChange([...list, ...r.attachments]);
          }, (err: unknown) => setProblem(String(err)));
        }} />
      </label>
      {list.map((a, i) => (
        <span key={i} className="inline-flex max-w-60 items-center gap-1.5 rounded-md bg-sunk py-0.5 pr-0.5 pl-2 text-[13px]">
          {a.kind === "image" ? <Image size={14} aria-hidden /> : <FileText size={14} aria-hidden />}
          <span className="truncate">{a.name ?? a.media_type}</span>
          <button type="button" aria-label={`Remove ${a.name ?? "attachment"}`} onClick={() => onChange(list.filter((_, j) => j !== i))} className="flex size-7 items-center justify-center rounded hover:bg-line max-md:size-11"><X size={14} aria-hidden /></button>
        </span>
      ))}
      {problem !== "" && <Problem>{problem}</Problem>}
      {list.length > 0 && <span data-testid="files-size" className="text-[13px] text-faint">{size(bytesOf(list))} of {size(MAX_BYTES)}{kept ? "" : ". This browser does not keep them over a reload"}</span>}
    </div>
  );
}
