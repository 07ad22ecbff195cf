// A short sound for a request that has just begun to wait, where somebody wants
// one. Five tabs ring once, and nothing that is old rings.
import type { Client, InFrame } from "@banksman/client";
import { setting } from "./settings";

/** Older than this by the server's clock is no news, such as what a reconnect brings. Milliseconds. */
const FRESH = 30_000;
const RUNG = "banksman.rung"; // keys that some tab has rung for
const REMEMBERED = 200;

export interface BellOptions {
  on?: () => boolean;
  /** Whether a sound would be heard: a page that nobody has touched may not make any. */
  ready?: () => boolean;
  ring?: () => void;
  now?: () => number;
  locks?: Pick<LockManager, "request">;
  storage?: Pick<Storage, "getItem" | "setItem">;
}

export class Bell {
  private readonly known = new Set<string>();

  constructor(
    private readonly client: Client,
    private readonly o: BellOptions = {},
  ) {}

  /** Listens until the returned function is called. */
  start(): () => void {
    const ended = new AbortController();
    this.client.on("frame", (f) => this.hear(f), ended);
    if (!this.o.ready) wakeWithGesture(ended.signal);
    return () => ended.abort();
  }

  private hear(f: InFrame): void {
    if (f.type === "active_processes") {
      for (const p of f.sessions ?? []) for (const s of p.pending_requests ?? []) this.known.add(s.key);
      return;
    }
    if (f.type !== "process_state") return;
    for (const c of f.closed ?? []) this.known.delete(c.key);
    const news = (f.pending_requests ?? []).filter((s) => !this.known.has(s.key));
    for (const s of news) this.known.add(s.key);
    const now = (this.o.now ?? Date.now)() + this.client.state.offset;
    const fresh = news.filter((s) => now - Date.parse(s.created_at) < FRESH && !this.client.item(s.key)?.closed).map((s) => s.key);
    if (fresh.length === 0 || !(this.o.on ?? soundOn)() || !(this.o.ready ?? canRing)()) return;
    void this.claim(fresh).then((mine) => {
      if (mine) (this.o.ring ?? ring)();
    }, () => undefined);
  }

  /** Whether this tab is the one that rings for some of them. */
  private async claim(keys: string[]): Promise<boolean> {
    const take = () => {
      const storage = this.o.storage ?? localStorage;
      const rung = JSON.parse(storage.getItem(RUNG) ?? "[]") as string[];
      const mine = keys.filter((k) => !rung.includes(k));
      if (mine.length > 0) storage.setItem(RUNG, JSON.stringify([...rung, ...mine].slice(-REMEMBERED)));
      return mine.length > 0;
    };
    const locks = this.o.locks ?? (typeof navigator === "undefined" ? undefined : navigator.locks);
    return locks ? await locks.request("banksman.bell", take) : take();
  }
}

export function soundOn(): boolean {
  return setting("sound") === "on";
}

let audio: AudioContext | undefined;

function canRing(): boolean {
  return audio?.state === "running";
}

/** Pages may make a sound only after somebody has touched them. */
function wakeWithGesture(signal: AbortSignal): void {
  const wake = () => {
    if (soundOn()) void wakeBell();
  };
  document.addEventListener("pointerdown", wake, { signal });
  document.addEventListener("keydown", wake, { signal });
}

async function wakeBell(): Promise<void> {
  if (typeof AudioContext === "undefined") return;
  audio ??= new AudioContext();
  if (audio.state !== "running") await audio.resume();
}

/** Two soft notes. */
export function ring(): void {
  if (!audio) return;
  const t = audio.currentTime;
  for (const [at, hz] of [[0, 660], [0.16, 880]] as const) {
    const tone = audio.createOscillator();
    const gain = audio.createGain();
    tone.frequency.value = hz;
    gain.gain.setValueAtTime(0, t + at);
    gain.gain.linearRampToValueAtTime(0.12, t + at + 0.02);
    gain.gain.exponentialRampToValueAtTime(0.001, t + at + 0.3);
    tone.connect(gain).connect(audio.destination);
    tone.start(t + at);
    tone.stop(t + at + 0.32);
  }
}

/** Lets somebody hear it who has just asked for it. */
export async function tryBell(): Promise<void> {
  await wakeBell();
  ring();
}
