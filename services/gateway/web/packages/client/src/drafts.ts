// Half-written answers by interaction key and by who wrote them. They survive reloads,
// losing the race and the person's own answer, which takes only what was in it.
import type { Principal } from "./wire.ts";

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

const nothing: Draft = Object.freeze({});

/**
 * Drafts in a storage that is handed in; tabs that share it share them. What a full
 * or forbidden one does not take lasts as long as this object.
 */
export class Drafts {
  private prefix = PREFIX;
  private readonly unsaved = new Map<string, Draft>(); // by key of the storage
  private readonly read = new Map<string, { raw: string; draft: Draft }>(); // equal texts, one object
  private readonly watchers = new Map<() => void, string>(); // which draft each is about

  constructor(private readonly storage: KeyValue) {}

  /** Whose drafts these are; empty before somebody has said so. */
  get owner(): string {
    return this.prefix.slice(PREFIX.length);
  }

  /** Shows this person's drafts from now on, and takes what was written before anybody knew whose it is. */
  own(p: Pick<Principal, "kind" | "id"> | undefined): void {
    const prefix = p ? `${PREFIX}@${p.kind}:${p.id} ` : PREFIX;
    if (prefix === this.prefix) return;
    this.prefix = prefix;
    if (p) this.claim();
    for (const f of [...this.watchers.keys()]) f();
  }

  private claim(): void {
    const nobodys = (key: string) => !key.startsWith(`${PREFIX}@`);
    for (const [key, draft] of [...this.unsaved].filter(([k]) => nobodys(k))) {
      this.unsaved.delete(key);
      this.join(key.slice(PREFIX.length), draft);
    }
    try {
      for (const key of this.keys().filter(nobodys)) {
        const draft = drafted(this.storage.getItem(key) ?? "");
        this.storage.removeItem(key);
        this.join(key.slice(PREFIX.length), draft);
      }
    } catch {
      // it stays where it is, and nobody sees it
    }
  }

  /** Puts what was written just now beside what this person had there: no words of either are lost. */
  private join(key: string, now: Draft): void {
    if (now === nothing) return;
    const had = this.load(key);
    const texts = [...new Set([had.text, now.text].filter((t) => t))];
    this.put(this.prefix + key, { ...had, ...now, ...(texts.length > 0 ? { text: texts.join("\n") } : {}) });
  }

  /** The same object as long as it says the same. */
  load(key: string): Draft {
    const at = this.prefix + key;
    const kept = this.unsaved.get(at);
    if (kept) return kept;
    try {
      const raw = this.storage.getItem(at);
      if (!raw) {
        this.read.delete(at);
        return nothing;
      }
      const old = this.read.get(at);
      if (old?.raw === raw) return old.draft;
      const draft = drafted(raw);
      this.read.set(at, { raw, draft });
      return draft;
    } catch {
      return nothing;
    }
  }

  save(key: string, draft: Draft): void {
    const at = this.prefix + key;
    this.put(at, draft);
    this.told(at);
  }

  private put(at: string, draft: Draft): void {
    try {
      if (isEmpty(draft)) this.storage.removeItem(at);
      else this.storage.setItem(at, JSON.stringify({ at: Date.now(), draft }));
      this.unsaved.delete(at);
    } catch {
      this.unsaved.set(at, draft);
    }
  }

  /** Changes some of it; what another tab has written beside that stays. */
  change(key: string, part: Partial<Draft>): void {
    this.save(key, { ...this.load(key), ...part });
  }

  /** Takes out what was in the person's own answer. input: what the agent asked to run. */
  sent(key: string, said: Said, input?: string): void {
    const draft = this.load(key);
    if (draft !== nothing) this.save(key, unsent(draft, said, input));
  }

  drop(key: string): void {
    this.save(key, {});
  }

  /** Calls f when this draft changes, in this tab or another, until the returned function is called. */
  watch(key: string, f: () => void): () => void {
    if (this.watchers.size === 0 && typeof addEventListener === "function") addEventListener("storage", this.elsewhere);
    this.watchers.set(f, key);
    return () => {
      this.watchers.delete(f);
      if (this.watchers.size === 0 && typeof removeEventListener === "function") removeEventListener("storage", this.elsewhere);
    };
  }

  private readonly elsewhere = (e: { key: string | null }): void => this.told(e.key);

  private told(at: string | null): void {
    for (const [f, key] of [...this.watchers]) if (at === null || at === this.prefix + key) f();
  }

  private keys(): string[] {
    return Array.from({ length: this.storage.length }, (_, i) => this.storage.key(i) ?? "").filter((k) => k.startsWith(PREFIX));
  }

  /** Drops what nobody has touched for 30 days. */
  dropOld(now: number): void {
    try {
      for (const key of this.keys()) if (this.isOld(key, now)) this.storage.removeItem(key);
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

/** What a storage holds of a draft. */
function drafted(raw: string): Draft {
  try {
    const d = JSON.parse(raw) as { draft?: unknown } | null;
    return typeof d?.draft === "object" && d.draft !== null ? (d.draft as Draft) : nothing;
  } catch {
    return nothing;
  }
}

export function isEmpty(d: Draft): boolean {
  const answers = Object.values(d.answers ?? {}).some((a) => a.values.length > 0 || a.other !== "" || a.useOther);
  const fields = Object.values(d.fields ?? {}).some((v) => v.length > 0);
  return !answers && !fields && !d.reason && d.edit === undefined && !d.clarify && !d.form && !d.text;
}

/** What a person said: a decision as it stands in the record, or the frame that brought it. */
export interface Said {
  message?: string;
  updated_input?: unknown;
  content?: unknown;
  answers?: unknown;
}

/** What was written and is not in the person's own answer. What was only ticked is no writing. */
export function unsent(d: Draft, said: Said, input?: string): Draft {
  const rest: Draft = {};
  for (const f of ["reason", "clarify"] as const) {
    const words = d[f]?.trim() ?? "";
    if (words !== "" && words !== said.message?.trim()) rest[f] = d[f];
  }
  if (d.edit !== undefined && d.edit !== input && !isJson(d.edit, said.updated_input)) rest.edit = d.edit;
  if (d.form && !isJson(d.form, said.content)) rest.form = d.form;
  const content = said.content === undefined ? "" : typeof said.content === "string" ? said.content : JSON.stringify(said.content);
  const fields = Object.entries(d.fields ?? {}).filter(([, v]) => v.length > 0 && ![v].flat().every((x) => content.includes(x) || content.includes(JSON.stringify(x))));
  if (fields.length > 0) rest.fields = Object.fromEntries(fields);
  const answers = JSON.stringify(said.answers ?? []);
  const others = Object.entries(d.answers ?? {}).filter(([, a]) => a.other.trim() !== "" && ![a.other, a.other.trim()].some((t) => answers.includes(JSON.stringify(t))));
  if (others.length > 0) rest.answers = Object.fromEntries(others.map(([id, a]) => [id, { values: [], useOther: a.useOther, other: a.other }]));
  return rest;
}

/** Whether the text is this value, however it is spaced. */
function isJson(text: string, value: unknown): boolean {
  if (value === undefined) return false;
  const plain = (t: string) => {
    try {
      return JSON.stringify(JSON.parse(t));
    } catch {
      return t;
    }
  };
  return text === value || plain(text) === (typeof value === "string" ? plain(value) : JSON.stringify(value));
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
