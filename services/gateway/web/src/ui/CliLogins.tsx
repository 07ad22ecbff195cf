import { isMe } from "@banksman/client";
import { SquareTerminal } from "lucide-react";
import { useState } from "react";
import { useApp, useAppState } from "./context";
import { Button } from "./controls";
import { useFresh } from "./fresh";

/** Terminals that ask to sign in. It takes no focus; typing goes on where it was. */
export function CliLogins() {
  const state = useAppState();
  const { cliLogins, signedIn } = state;
  const app = useApp();
  const first = cliLogins[0];
  // Who manages people hears of all. A gateway of an older version does not say who it is.
  const other = signedIn?.principal && !isMe(state, signedIn.principal) ? signedIn.principal : null;
  const how = signedIn ? [signedIn.name === other?.name ? "" : signedIn.name, signedIn.via].filter(Boolean).join(", ") : "";
  return (
    <>
      {signedIn && (
        <div role="status" className="fixed top-3 right-3 z-30 max-w-sm rounded-xl border border-line bg-card p-3 text-sm shadow-card">
          New sign-in as {other ? <span className="verbatim">{other.name || other.id}</span> : "you"}: <span className="verbatim">{how}</span>.
          <Button small look="quiet" className="ml-1" onClick={() => app.store.dispatch({ kind: "signed-in-seen" })}>Got it</Button>
        </div>
      )}
      {first && <Confirm key={first.code} code={first.code} name={first.name} />}
    </>
  );
}

function Confirm({ code, name }: { code: string; name: string }) {
  const app = useApp();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  // It comes by itself, perhaps under a finger on its way to a card.
  const fresh = useFresh(code);
  const answer = (allow: boolean) => {
    setBusy(true);
    app.answerCliLogin(code, allow).catch((e: unknown) => {
      setBusy(false);
      setProblem(e instanceof Error ? e.message : String(e));
    });
  };
  // Where there is room it stands over the list of sessions, and covers nothing that decides.
  return (
    <div role="dialog" aria-label="A terminal asks to sign in as you" data-testid="cli-login" className="enter fixed right-3 bottom-3 left-3 z-30 rounded-2xl border border-edge/60 bg-card p-5 shadow-card max-md:bottom-20 md:right-auto md:w-60 md:p-4">
      <p className="flex items-center gap-2.5 font-semibold"><SquareTerminal size={18} aria-hidden />A terminal asks to sign in as you</p>
      <p className="mt-1 text-sm text-soft">{name ? <>It calls itself <span className="verbatim font-medium text-ink">{name}</span>. </> : null}Allow it only if your terminal shows exactly this code:</p>
      <p className="mt-3 rounded-xl bg-code py-3 text-center font-mono text-2xl font-semibold tracking-widest text-code-ink">{code}</p>
      <p className="mt-2 text-[13px] text-faint">It may then decide in your name for some hours.</p>
      {problem !== "" && <p role="alert" className="mt-2 text-sm font-medium text-ink">{problem}</p>}
      <div className={`mt-4 flex flex-wrap justify-between gap-2 ${fresh ? "pointer-events-none" : ""}`}>
        <Button data-testid="cli-login-refuse" className="md:w-full" disabled={busy} onClick={() => answer(false)}>Refuse</Button>
        <Button look="solid" data-testid="cli-login-allow" className="md:w-full md:px-2! md:whitespace-normal!" disabled={busy} busy={busy} onClick={() => answer(true)}>The codes match, allow</Button>
      </div>
    </div>
  );
}
