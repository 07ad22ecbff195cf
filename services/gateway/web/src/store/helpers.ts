import type { Client, Services } from "@banksman/client";
import { useCallback, useSyncExternalStore } from "react";
import { useApp, useAppState, useCards } from "../ui/context";
import { soon } from "../ui/soon";
import type { Api } from "./app";

const AGAIN = 5_000; // ms between two looks of a screen that is about it
const SELDOM = 60_000; // ms between two looks of one that merely mentions it

export interface Helpers {
  /** What reachable workers can run. */
  runtimes: string[];
  /** Whether a notifier would tell anybody; undefined until the server said so. */
  notifier?: Services["notifier"];
  /** By what it tells people; undefined where it did not say. */
  channels?: Services["channels"];
}

/** Who stands ready beside the gateway: one look serves all who show it, and nobody looks where nobody does. */
export class Beside {
  private told: Services | undefined;
  private readonly listeners = new Map<() => void, number>(); // how often each wants it, ms
  private timer: ReturnType<typeof setTimeout> | undefined;
  private running: AbortController | undefined;
  private off: (() => void) | undefined;
  private planned: (() => void) | undefined; // ends what is planned

  constructor(private readonly client: Client, private readonly api: Pick<Api, "call">) {}

  readonly get = (): Services | undefined => this.told;

  subscribe(f: () => void, every: number): () => void {
    this.listeners.set(f, every);
    if (this.listeners.size === 1) this.off = this.client.on("connection", (c) => {
      if (c.status === "online") void this.look();
      else this.set(undefined);
    });
    if (this.client.state.conn.status === "online" && (!this.running || every < SELDOM)) this.plan();
    return () => {
      this.listeners.delete(f);
      if (this.listeners.size > 0) return;
      this.off?.();
      this.stop();
    };
  }

  /** What is drawn now comes first. */
  private plan(): void {
    this.planned?.();
    this.planned = soon(() => void this.look());
  }

  private stop(): void {
    this.planned?.();
    this.running?.abort();
    this.running = undefined;
    clearTimeout(this.timer);
  }

  private set(s: Services | undefined): void {
    if (s === undefined) this.stop();
    this.told = s;
    for (const f of [...this.listeners.keys()]) f();
  }

  private async look(): Promise<void> {
    this.stop();
    const mine = (this.running = new AbortController());
    try {
      const s = await this.api.call<Services>("GET", "/api/services", { signal: mine.signal });
      if (!mine.signal.aborted) this.set(s);
    } catch {
      // an older server does not know; the connection's own state says the rest
    }
    if (!mine.signal.aborted) this.timer = setTimeout(() => void this.look(), Math.min(...this.listeners.values()));
  }
}

function useBeside(beside: Beside | undefined, every: number): Services | undefined {
  const subscribe = useCallback((f: () => void) => beside?.subscribe(f, every) ?? (() => undefined), [beside, every]);
  return useSyncExternalStore(subscribe, () => beside?.get());
}

/** Who stands ready beside the gateway, kept fresh while a screen shows it. */
export function useHelpers(): Helpers {
  const { runtimes } = useAppState();
  const told = useBeside(useApp().beside, AGAIN);
  return { runtimes: told?.runtimes ?? runtimes, notifier: told?.notifier, channels: told?.channels };
}

/** Whether a notifier listens; undefined where nobody knows, as in another page. */
export function useNotifier(): Services["notifier"] | undefined {
  return useBeside(useCards().beside, SELDOM)?.notifier;
}
