import { lazy, Suspense } from "react";
import { Button } from "../ui/controls";
import { ErrorBoundary } from "../ui/ErrorBoundary";
import { openSheet, useMaking } from "./open";

const Sheet = lazy(() => import("./Sheet"));

/** Where the sheet is drawn, once in a page. */
export function RuleSheet() {
  const making = useMaking();
  if (!making) return null;
  const close = () => {
    openSheet(undefined);
    making.from?.focus();
  };
  return (
    <ErrorBoundary key={making.summary.key} fallback={(error, again) => (
      <div role="alert" className="fixed right-3 bottom-3 z-30 rounded-2xl border border-line bg-card p-4 text-sm shadow-card">
        The rule’s sheet cannot be shown: {error.message} <Button small onClick={again}>Try again</Button> <Button small look="quiet" onClick={close}>Close</Button>
      </div>
    )}>
      <Suspense fallback={null}><Sheet summary={making.summary} start={making.start} onClose={close} /></Suspense>
    </ErrorBoundary>
  );
}
