import { CircleAlert, LoaderCircle } from "lucide-react";
import { type ButtonHTMLAttributes, type Ref, type ReactNode, useState } from "react";
import { useFresh } from "./fresh";

const looks = {
  solid: "bg-accent text-accent-ink hover:bg-accent-hover font-semibold",
  plain: "bg-card text-ink border border-edge/60 hover:bg-sunk font-medium",
  quiet: "text-soft hover:text-ink hover:bg-sunk font-medium",
  danger: "bg-card text-red border border-red/50 hover:bg-red-wash font-medium",
} as const;

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: keyof typeof looks;
  busy?: boolean;
  small?: boolean;
  /** Less air at the sides, for rows of quiet buttons. */
  tight?: boolean;
  ref?: Ref<HTMLButtonElement>;
}

export function Button({ look = "plain", busy = false, small = false, tight = false, className = "", children, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      // A held key is one press, of the button it began on.
      onKeyDown={(e) => {
        if (e.repeat && e.key === "Enter") e.preventDefault();
        rest.onKeyDown?.(e);
      }}
      aria-busy={busy || undefined}
      className={`inline-flex items-center justify-center gap-2 rounded-lg whitespace-nowrap transition-colors select-none disabled:opacity-50 disabled:pointer-events-none ${small ? "min-h-9 text-sm max-md:min-h-11" : "min-h-11"} ${tight ? "px-2.5" : small ? "px-3" : "px-4"} ${looks[look]} ${className}`}
    >
      {busy && <LoaderCircle size={16} aria-hidden className="animate-spin" />}
      {children}
    </button>
  );
}

/** One that comes in the place of another: the second half of a double press is not for it. */
export function SureButton({ className = "", ...rest }: ButtonProps) {
  return <Button {...rest} className={`${useFresh("") ? "pointer-events-none" : ""} ${className}`} />;
}

const tones = {
  neutral: "bg-sunk text-soft",
  red: "bg-red-wash text-red",
  green: "bg-green-wash text-green",
  accent: "bg-accent-wash text-accent",
  /** Not a colour of its own: what must not be overlooked. */
  strong: "bg-sunk text-ink border border-edge",
} as const;

export type Tone = keyof typeof tones;

export function Chip({ tone = "neutral", children, title }: { tone?: Tone; children: ReactNode; title?: string }) {
  return (
    <span title={title} className={`inline-flex items-center gap-1.5 rounded-md px-2 py-0.5 text-[13px] font-medium [overflow-wrap:anywhere] ${tones[tone]}`}>
      {children}
    </span>
  );
}

export function Notice({ tone, icon, children }: { tone: Tone; icon: ReactNode; children: ReactNode }) {
  return (
    <div className={`flex items-start gap-2.5 rounded-lg px-3.5 py-2.5 text-sm ${tones[tone]}`}>
      <span className="mt-0.5 flex-none" aria-hidden>{icon}</span>
      <div className="min-w-0 [overflow-wrap:anywhere]">{children}</div>
    </div>
  );
}

/** What went wrong, next to where. It has no colour of its own: the mark and the words say it. */
export function Problem({ children, className = "", quiet = false }: { children: ReactNode; className?: string; /** It was there before: nothing to announce. */ quiet?: boolean }) {
  return (
    <p role={quiet ? undefined : "alert"} className={`flex items-start gap-2 text-sm font-medium text-ink ${className}`}>
      <CircleAlert size={16} aria-hidden className="mt-0.5 flex-none" /><span className="verbatim min-w-0">{children}</span>
    </p>
  );
}

export function Key({ children }: { children: ReactNode }) {
  return (
    <kbd aria-hidden className="rounded border border-current/30 px-1.5 font-mono text-[11px] leading-[18px] opacity-90 max-md:hidden">
      {children}
    </kbd>
  );
}

export function CopyButton({ text, label = "Copy", onDark = false }: { text: string; label?: string; onDark?: boolean }) {
  const [done, setDone] = useState(false);
  return (
    <button
      type="button"
      onClick={() => {
        void navigator.clipboard?.writeText(text).then(() => setDone(true), () => undefined);
      }}
      onBlur={() => setDone(false)}
      className={`rounded px-2 py-0.5 text-xs font-medium max-md:min-h-11 max-md:px-3 ${onDark ? "text-code-dim hover:text-code-ink" : "text-faint hover:text-ink"}`}
    >
      {done ? "Copied" : label}
    </button>
  );
}

export const inputClass =
  "w-full rounded-lg border border-edge/70 bg-card px-3 py-2 text-ink placeholder:text-faint disabled:opacity-60";
