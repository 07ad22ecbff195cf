// Half-written answers by interaction key. They survive reloads and losing the
// race, and are dropped when the person's own answer is in, or by hand.
const PREFIX = "banksman.draft.";
const MAX_AGE = 30 * 24 * 3600 * 1000; // ms

export interface AnswerDraft {
  values: string[];
  useOther: boolean;
  other: string;
}

export interface Draft {
  answers?: Record<string, AnswerDraft>;
  reason?: string;
  edit?: string;
  clarify?: string;
  form?: string;
  text?: string; // of a message or prompt
}

export function loadDraft(key: string): Draft {
  try {
    const raw = localStorage.getItem(PREFIX + key);
    if (!raw) return {};
    const d = JSON.parse(raw) as { draft?: unknown };
    return d.draft !== null && typeof d.draft === "object" ? (d.draft as Draft) : {};
  } catch {
    return {};
  }
}

export function saveDraft(key: string, draft: Draft): void {
  try {
    if (isEmpty(draft)) localStorage.removeItem(PREFIX + key);
    else localStorage.setItem(PREFIX + key, JSON.stringify({ at: Date.now(), draft }));
  } catch {
    // Full or forbidden storage: the text stays on screen, only a reload loses it.
  }
}

export function dropDraft(key: string): void {
  try {
    localStorage.removeItem(PREFIX + key);
  } catch {
    // nothing was stored then
  }
}

export function isEmpty(d: Draft): boolean {
  const answers = Object.values(d.answers ?? {}).some((a) => a.values.length > 0 || a.other !== "" || a.useOther);
  return !answers && !d.reason && d.edit === undefined && !d.clarify && !d.form && !d.text;
}

/** The words in a draft, for copying once it can no longer be sent. */
export function draftText(d: Draft): string {
  const parts: string[] = [];
  for (const a of Object.values(d.answers ?? {})) {
    if (a.values.length > 0) parts.push(a.values.join(", "));
    if (a.other) parts.push(a.other);
  }
  for (const t of [d.reason, d.edit, d.clarify, d.form]) if (t) parts.push(t);
  return parts.join("\n");
}

export function dropOldDrafts(now: number): void {
  try {
    for (const key of Object.keys(localStorage)) {
      if (!key.startsWith(PREFIX)) continue;
      const d = JSON.parse(localStorage.getItem(key) ?? "{}") as { at?: unknown };
      if (typeof d.at !== "number" || now - d.at > MAX_AGE) localStorage.removeItem(key);
    }
  } catch {
    // a foreign value; leave it
  }
}
