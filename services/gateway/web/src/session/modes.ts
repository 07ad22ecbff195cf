/** How much an agent asks. */
export const modes: { value: string; label: string; note: string; /** Lets more run unasked. */ loose?: true }[] = [
  { value: "default", label: "Ask first", note: "The agent asks before it changes anything." },
  { value: "acceptEdits", label: "Accept edits", note: "File changes run at once; commands still ask.", loose: true },
  { value: "plan", label: "Plan first", note: "The agent only reads until you approve its plan." },
  { value: "bypassPermissions", label: "⚠ Never ask", note: "Every tool runs unasked. Only for throw-away machines.", loose: true },
];

const runtimes: Record<string, string> = { claude: "Claude Code", demo: "Demo (no model)" };

export function runtimeName(runtime: string): string {
  return runtimes[runtime] ?? runtime;
}
