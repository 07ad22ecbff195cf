import type { Services } from "@banksman/client";
import { useEffect, useState } from "react";
import { useApp, useAppState } from "../ui/context";

const AGAIN = 5_000; // ms between two looks

export interface Helpers {
  /** What reachable workers can run. */
  runtimes: string[];
  /** Whether a notifier would tell anybody; undefined until the server said so. */
  notifier?: Services["notifier"];
}

/** Who stands ready beside the gateway, kept fresh while a screen shows it. */
export function useHelpers(): Helpers {
  const app = useApp();
  const { runtimes, conn } = useAppState();
  const [told, setTold] = useState<Services>();
  const online = conn.status === "online";
  useEffect(() => {
    if (!online) return setTold(undefined);
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      try {
        const s = await app.gateway.call<Services>("GET", "/api/services", { signal: ended.signal });
        if (!ended.signal.aborted) setTold(s);
      } catch {
        // an older server does not know; the connection's own state says the rest
      }
      if (!ended.signal.aborted) timer = setTimeout(() => void look(), AGAIN);
    };
    void look();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [app, online]);
  return { runtimes: told?.runtimes ?? runtimes, notifier: told?.notifier };
}
