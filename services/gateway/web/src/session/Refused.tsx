import { Problem } from "../ui/controls";
import { keepPlace } from "../ui/route";

const PROOF = "/signin.html#proof"; // the server names it where a passkey is wanted

/** Why the server did not take a command; with the way to the passkey, and back, where that is what it wants. */
export function Refused({ words, className = "" }: { words: string; className?: string }) {
  if (!words.includes(PROOF)) return <Problem className={className}>{words}</Problem>;
  return (
    <Problem className={className}>
      Not done yet: a mode in which the agent asks less takes your passkey. It counts for five minutes; then choose the mode again.{" "}
      <a data-testid="proof" href={PROOF} onClick={() => keepPlace(location.hash, Date.now())}
        className="mt-2 inline-flex min-h-9 items-center rounded-lg border border-edge/60 bg-card px-3 hover:bg-sunk max-md:min-h-11">Confirm with your passkey</a>
    </Problem>
  );
}
