/** So long what has just changed has to be drawn, before anything else is done. Milliseconds. */
export const SOON = 60;

/**
 * Does something once the screen had its turn; a page that nobody sees has none to wait
 * for. Returns what prevents it.
 */
export function soon(f: () => void): () => void {
  if (document.visibilityState === "hidden") {
    f();
    return () => undefined;
  }
  const timer = setTimeout(f, SOON);
  return () => clearTimeout(timer);
}
