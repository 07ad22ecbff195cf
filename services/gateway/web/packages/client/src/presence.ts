// Tells the gateway what a person has before their eyes, so that a notifier waits a
// little with it. Only browsers have this; elsewhere nothing is told.
import type { Client } from "./client.ts";

/** A request that stays on the screen is told again after this. Milliseconds. */
export const TELL_EVERY = 10_000;
/** What comes on the screen is told together with what comes within this. Milliseconds. */
const GATHER = 1_000;
/** Without a sign of a person for so long, a screen is a screen that nobody looks at. Milliseconds. */
export const UNATTENDED = 60_000;
/** As many as one frame names. */
const MOST = 50;

const signs = ["pointerdown", "pointermove", "keydown", "wheel", "touchmove", "scroll", "focus"];

export class Presence {
  private readonly shown = new Map<Element, { key: string; on: boolean }>();
  private readonly told = new Map<string, number>(); // key -> when
  private observer: IntersectionObserver | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private due = Infinity; // when the timer goes off
  private ended: AbortController | undefined;
  private sign = Date.now(); // of a person; whoever opened the page was one

  constructor(private readonly client: Pick<Client, "seen">) {}

  /** Counts an element as a request's card until the returned function is called. */
  watch(el: Element, key: string): () => void {
    if (typeof IntersectionObserver === "undefined") return () => undefined;
    if (this.shown.size === 0) this.begin();
    this.shown.set(el, { key, on: false });
    this.observer!.observe(el);
    return () => {
      this.observer?.unobserve(el);
      this.shown.delete(el);
      if (this.shown.size === 0) this.end();
    };
  }

  private begin(): void {
    // A strip at the edge of the window is not yet before anybody's eyes.
    this.observer = new IntersectionObserver((entries) => {
      for (const e of entries) {
        const s = this.shown.get(e.target);
        if (s) s.on = e.isIntersecting;
      }
      this.plan(GATHER);
    }, { rootMargin: "-10% 0px" });
    this.ended = new AbortController();
    const { signal } = this.ended;
    const woke = () => {
      const slept = Date.now() - this.sign > UNATTENDED || this.due === Infinity;
      this.sign = Date.now();
      if (slept) this.plan(GATHER);
    };
    for (const s of signs) window.addEventListener(s, woke, { signal, capture: true, passive: true });
    document.addEventListener("visibilitychange", () => this.plan(GATHER), { signal });
  }

  private end(): void {
    this.observer?.disconnect();
    this.ended?.abort();
    clearTimeout(this.timer);
    this.due = Infinity;
    this.told.clear();
  }

  private plan(ms: number): void {
    const at = Date.now() + ms;
    if (at >= this.due) return;
    clearTimeout(this.timer);
    this.due = at;
    this.timer = setTimeout(() => this.tell(), ms);
  }

  private tell(): void {
    this.due = Infinity;
    const now = Date.now();
    if (document.visibilityState !== "visible" || !document.hasFocus() || now - this.sign > UNATTENDED) return;
    const on = new Set([...this.shown.values()].filter((s) => s.on).map((s) => s.key));
    for (const key of [...this.told.keys()]) if (!on.has(key) && now - this.told.get(key)! >= TELL_EVERY) this.told.delete(key);
    const due = [...on].filter((k) => now - (this.told.get(k) ?? -Infinity) >= TELL_EVERY).slice(0, MOST);
    if (due.length > 0 && this.client.seen(due)) for (const k of due) this.told.set(k, now);
    if (on.size > 0) this.plan(Math.max(GATHER, Math.min(...[...on].map((k) => (this.told.get(k) ?? -Infinity) + TELL_EVERY - now))));
  }
}
