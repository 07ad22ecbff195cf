// Who else may answer a request, fetched when somebody asks.
import { useEffect, useState } from "react";
import type { Audience as Told } from "@banksman/client";
import { Verbatim } from "./blocks";
import { useApp } from "../ui/context";
import { Problem } from "../ui/controls";

export default function Audience({ requestKey }: { requestKey: string }) {
  const { gateway } = useApp();
  const [told, setTold] = useState<Told>();
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    gateway.call<Told>("GET", `/api/interactions/${encodeURIComponent(requestKey)}/audience`, { signal: stop.signal }).then(
      (a) => { if (!stop.signal.aborted) setTold(a); },
      (e: unknown) => { if (!stop.signal.aborted) setProblem(e instanceof Error ? e.message : String(e)); },
    );
    return () => stop.abort();
  }, [gateway, requestKey]);
  if (problem !== "") return <Problem>It could not be fetched: {problem}</Problem>;
  if (!told) return <p role="status" className="text-[13px] text-faint">Fetching…</p>;
  return <p data-testid="audience" className="verbatim text-[13px] text-soft"><Verbatim text={sentence(told)} /></p>;
}

/** By roles: who has looked is not known. */
export function sentence(a: Told): string {
  const others = (a.deciders ?? []).filter((p) => !p.you).map((p) => p.name || p.id);
  const more = a.more ?? 0;
  const you = (a.deciders ?? []).some((p) => p.you);
  if (more > 0) others.push(`${more} more`);
  const names = others.length < 2 ? others.join("") : `${others.slice(0, -1).join(", ")} and ${others.at(-1)}`;
  const programs = a.programs ?? 0;
  const viewers = a.viewers ?? 0;
  const parts = [
    names === "" ? (you ? "Nobody beside you may answer." : "No person may answer.") : you ? `Beside you ${names} may answer; the first answer counts.` : `${names} may answer; the first answer counts.`,
    programs > 0 ? `${programs === 1 ? "One program" : `${programs} programs`} may as well.` : "",
    viewers > 0 ? `${viewers === 1 ? "One person sees" : `${viewers} people see`} that something waits, not what.` : "",
  ];
  return parts.filter((p) => p !== "").join(" ");
}
