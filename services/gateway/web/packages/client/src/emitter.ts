/** Listeners by the type of what happened. */
export class Emitter<Events> {
  private readonly listeners = new Map<keyof Events, Set<(e: never) => void>>();

  /** Calls f for each event until the returned function is called or the signal ends. */
  on<K extends keyof Events>(type: K, f: (e: Events[K]) => void, o: { signal?: AbortSignal } = {}): () => void {
    if (o.signal?.aborted) return () => undefined;
    const set = this.listeners.get(type) ?? new Set();
    this.listeners.set(type, set);
    // Of its own, so that one function may listen twice.
    const own = (e: Events[K]) => f(e);
    set.add(own);
    const off = () => {
      set.delete(own);
      o.signal?.removeEventListener("abort", off);
    };
    o.signal?.addEventListener("abort", off);
    return off;
  }

  protected has(...types: (keyof Events)[]): boolean {
    return types.some((t) => (this.listeners.get(t)?.size ?? 0) > 0);
  }

  protected emit<K extends keyof Events>(type: K, e: Events[K]): void {
    for (const f of [...(this.listeners.get(type) ?? [])] as ((e: Events[K]) => void)[]) f(e);
  }
}
