/** How much an agent asks. */
export const modes: { value: string; label: string; note: string }[] = [
  { value: "default", label: "Ask first", note: "The agent asks before it changes anything." },
  { value: "acceptEdits", label: "Accept edits", note: "File changes run at once; commands still ask." },
  { value: "plan", label: "Plan first", note: "The agent only reads until you approve its plan." },
  { value: "bypassPermissions", label: "⚠ Never ask", note: "Every tool runs unasked. Only for throw-away machines." },
];

const runtimes: Record<string, string> = { claude: "Claude Code", demo: "Demo (no model)" };

export function runtimeName(runtime: string): string {
  return runtimes[runtime] ?? runtime;
}
