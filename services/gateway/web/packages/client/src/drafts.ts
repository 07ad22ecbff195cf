// Half-written answers by interaction key. They survive reloads and losing the
// race, and are dropped when the person's own answer is in, or by hand.

/** The part of Storage that is used; localStorage is one. */
export type KeyValue = Pick<Storage, "getItem" | "setItem" | "removeItem" | "key" | "length">;

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
  /** Of a form, by field: text, or the JSON of what was chosen. */
  fields?: Record<string, string | string[]>;
  text?: string; // of a message or prompt
  /** Fields that were closed by hand with words in them: the words come back when they are opened. */
  shut?: Shuttable[];
}

/** What can be opened and closed in a card. */
export type Shuttable = "reason" | "edit" | "clarify" | "form";

/** Whether a field begins open: words are in it, and nobody has closed it over them. */
export function beginsOpen(d: Draft, field: Shuttable): boolean {
  return d[field] !== undefined && d[field] !== "" && !d.shut?.includes(field);
}

/** The change to a draft when a field is opened or closed. */
export function shutting(d: Draft, field: Shuttable, shut: boolean): Pick<Draft, "shut"> {
  const others = (d.shut ?? []).filter((f) => f !== field);
  return { shut: shut ? [...others, field] : others.length > 0 ? others : undefined };
}

/** Drafts in a storage that is handed in. A full or forbidden one loses them at a reload only. */
export class Drafts {
  constructor(private readonly storage: KeyValue) {}

  load(key: string): Draft {
    try {
      const raw = this.storage.getItem(PREFIX + key);
      if (!raw) return {};
      const d = JSON.parse(raw) as { draft?: unknown };
      return d.draft !== null && typeof d.draft === "object" ? (d.draft as Draft) : {};
    } catch {
      return {};
    }
  }

  save(key: string, draft: Draft): void {
    try {
      if (isEmpty(draft)) this.storage.removeItem(PREFIX + key);
      else this.storage.setItem(PREFIX + key, JSON.stringify({ at: Date.now(), draft }));
    } catch {
      // the text stays on screen
    }
  }

  drop(key: string): void {
    try {
      this.storage.removeItem(PREFIX + key);
    } catch {
      // nothing was stored then
    }
  }

  /** Drops what nobody has touched for 30 days. */
  dropOld(now: number): void {
    try {
      const keys = Array.from({ length: this.storage.length }, (_, i) => this.storage.key(i));
      for (const key of keys) if (key?.startsWith(PREFIX) && this.isOld(key, now)) this.storage.removeItem(key);
    } catch {
      // no storage, nothing old
    }
  }

  private isOld(key: string, now: number): boolean {
    try {
      const d = JSON.parse(this.storage.getItem(key) ?? "{}") as { at?: unknown };
      return typeof d.at !== "number" || now - d.at > MAX_AGE;
    } catch {
      return false; // a foreign value; leave it
    }
  }
}

export function isEmpty(d: Draft): boolean {
  const answers = Object.values(d.answers ?? {}).some((a) => a.values.length > 0 || a.other !== "" || a.useOther);
  const fields = Object.values(d.fields ?? {}).some((v) => v.length > 0);
  return !answers && !fields && !d.reason && d.edit === undefined && !d.clarify && !d.form && !d.text;
}

/** The words in a draft, for copying once it can no longer be sent. */
export function draftText(d: Draft): string {
  const parts: string[] = [];
  for (const a of Object.values(d.answers ?? {})) {
    if (a.values.length > 0) parts.push(a.values.join(", "));
    if (a.other) parts.push(a.other);
  }
  for (const [name, v] of Object.entries(d.fields ?? {})) if (v.length > 0) parts.push(`${name}: ${typeof v === "string" ? v : v.join(", ")}`);
  for (const t of [d.reason, d.edit, d.clarify, d.form]) if (t) parts.push(t);
  return parts.join("\n");
}

/** A storage that lasts as long as the page. */
export function memoryStorage(): KeyValue {
  const m = new Map<string, string>();
  return {
    get length() {
      return m.size;
    },
    key: (i) => [...m.keys()][i] ?? null,
    getItem: (k) => m.get(k) ?? null,
    setItem: (k, v) => void m.set(k, v),
    removeItem: (k) => void m.delete(k),
  };
}

/** The page's own storage, or one for its lifetime where it has none. */
export function pageStorage(): KeyValue {
  try {
    void localStorage.length;
    return localStorage;
  } catch {
    return memoryStorage();
  }
}
