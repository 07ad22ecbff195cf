import { LoaderCircle } from "lucide-react";
import { useEffect } from "react";
import { Receipt } from "../cards/Receipt";
import { useNow } from "../cards/useNow";
import { origin } from "../cards/words";
import { cardState } from "@banksman/client";
import { useApp, useAppState } from "../ui/context";
import { Button } from "../ui/controls";

export function History() {
  const app = useApp();
  const state = useAppState();
  const now = useNow(state.offset);
  const online = state.conn.status === "online";
  useEffect(() => {
    if (online) void app.client.loadHistory();
  }, [online, app]);
  const keys = state.history.keys
    .filter((k) => state.items[k]?.closed)
    .sort((a, b) => ended(state.items[b]!).localeCompare(ended(state.items[a]!)));
  return (
    <div data-testid="history" className="mx-auto w-full max-w-3xl px-4 py-6 md:px-8">
      <h1 className="mb-4 text-xl font-semibold">Decisions</h1>
      {state.history.state === "failed" && <p className="mb-3 text-sm text-amber">The list could not be fetched. <Button small onClick={() => void app.client.loadHistory()}>Try again</Button></p>}
      {keys.length === 0 && state.history.state === "loading" && <p role="status" className="flex items-center gap-3 text-soft"><LoaderCircle size={18} aria-hidden className="animate-spin" />Fetching…</p>}
      {keys.length === 0 && state.history.state === "ready" && <p className="text-soft">No decision yet.</p>}
      {keys.length > 0 && (
        <ul className="divide-y divide-line rounded-2xl border border-line bg-card">
          {keys.map((k) => {
            const item = state.items[k]!;
            const card = cardState(state, k);
            return <li key={k} className="px-5 py-4 max-md:px-4"><Receipt item={item} me={card === "confirmed"} lost={card === "lost"} now={now} where={origin(item.summary, state.sessions[item.summary.session_key]?.title).join(" · ")} /></li>;
          })}
        </ul>
      )}
    </div>
  );
}

function ended(item: { decision?: { decided_at: string }; summary: { created_at: string } }): string {
  return item.decision?.decided_at ?? item.summary.created_at;
}
