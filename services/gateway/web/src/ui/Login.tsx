import { KeyRound } from "lucide-react";
import { useEffect } from "react";
import { CopyButton } from "./controls";
import { keepPlace } from "./route";

export function Login({ problem }: { problem: string }) {
  // The link of an alert leads to its request after the sign-in, too.
  useEffect(() => keepPlace(location.hash, Date.now()), []);
  return (
    <main data-testid="login-needed" className="mx-auto flex min-h-dvh max-w-md flex-col justify-center gap-4 px-6 py-10">
      <KeyRound size={28} aria-hidden className="text-faint" />
      <h1 className="text-xl font-semibold">Sign in from your terminal</h1>
      {problem !== "" && <p role="alert" className="font-medium text-ink">{problem}</p>}
      <p className="text-soft">This page shows what your agents ask, so it opens only with a link from the machine that runs Banksman. On that machine, run</p>
      <div className="flex items-center gap-2 rounded-xl bg-code px-4 py-2.5 text-code-ink">
        <code className="flex-1 font-mono text-[15px]">banksman login</code>
        <CopyButton text="banksman login" onDark />
      </div>
      <p className="text-soft">and open the link it prints. Each link works once and for a few minutes.</p>
      <p className="text-soft">In a team: <a className="text-accent underline" href="/signin.html">sign in with a passkey or your company's account</a>.</p>
    </main>
  );
}
