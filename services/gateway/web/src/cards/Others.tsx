import { lazy, Suspense, useContext, useState } from "react";
import { AppContext } from "../ui/context";
import { Problem } from "../ui/controls";
import { ErrorBoundary } from "../ui/ErrorBoundary";

const Audience = lazy(() => import("./Audience"));

/** A word that opens who else may answer; nothing is fetched before. */
export function Others({ requestKey }: { requestKey: string }) {
  const app = useContext(AppContext);
  const [open, setOpen] = useState(false);
  if (!app) return null; // another page's frame shows the request alone
  return (
    <>
      <button type="button" data-testid="others" aria-expanded={open} onClick={() => setOpen(!open)} className="min-h-6 rounded text-[13px] text-soft underline-offset-2 hover:underline max-md:min-h-11">Who else may answer?</button>
      {open && (
        <ErrorBoundary fallback={() => <Problem>It cannot be shown.</Problem>}>
          <Suspense fallback={<p role="status" className="text-[13px] text-faint">Fetching…</p>}><Audience requestKey={requestKey} /></Suspense>
        </ErrorBoundary>
      )}
    </>
  );
}
