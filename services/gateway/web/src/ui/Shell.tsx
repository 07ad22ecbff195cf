import { CircleHelp, History as HistoryIcon, Inbox as InboxIcon, ListChecks, LogOut, MessagesSquare, Moon, RefreshCw, Settings as SettingsIcon, Sun, SunMoon, WifiOff } from "lucide-react";
import { type ReactNode, Suspense, useEffect, useState } from "react";
import { useNow } from "../cards/useNow";
import { isTextField, keysOn } from "../cards/keys";
import { Inbox } from "../inbox/Inbox";
import { SessionList } from "../session/SessionList";
import { useNewer } from "../store/shell";
import { pendingCount } from "@banksman/client";
import { CliLogins } from "./CliLogins";
import { useApp, useAppState } from "./context";
import { Button } from "./controls";
import { ErrorBoundary } from "./ErrorBoundary";
import { LiveRegion, useAttention, useDeadlineWords } from "./LiveRegion";
import { RuleSheet } from "../rules/Host";
import { type Route, useRoute } from "./route";
import { Help, History, One, preload, Rules, SessionView, Settings, StartForm } from "./screens";
import { loadTheme, saveTheme, type Theme } from "./theme";

export function Shell() {
  const route = useRoute();
  const state = useAppState();
  const [help, setHelp] = useState(false);
  useAttention();
  useDeadlineWords();
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || e.isComposing || isTextField(e.target) || !keysOn()) return;
      if (e.key === "?") setHelp(true);
      // From anywhere else these lead to what waits; they decide nothing.
      const here = e.target instanceof Element && e.target.closest("[data-card], dialog, [role=dialog]");
      if ((e.key === "j" || e.key === "k") && !here) {
        const cards = document.querySelectorAll<HTMLElement>("main article[data-card]");
        cards[e.key === "j" ? 0 : cards.length - 1]?.focus();
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  useEffect(() => {
    // Once what waits is on the screen.
    if (state.snapshot === "ready") preload().catch(() => undefined);
  }, [state.snapshot]);
  const n = pendingCount(state);
  const current = route.at === "session" ? route.key : "";

  return (
    <div className="flex h-dvh flex-col">
      <a href="#main" className="sr-only z-40 rounded-lg bg-accent px-4 py-3 text-accent-ink focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
        onClick={(e) => {
          e.preventDefault();
          (document.querySelector<HTMLElement>("main [data-card]") ?? document.querySelector<HTMLElement>("main"))?.focus();
        }}>Skip to what waits</a>
      <ConnBar />
      <NewerBar />
      <div className="flex min-h-0 flex-1">
        {/* First in tab order, second on screen: what waits is what matters. */}
        <main id="main" data-scroll tabIndex={-1} className={`order-2 min-w-0 flex-1 outline-none ${route.at === "session" ? "" : "overflow-y-auto"}`}>
          <ErrorBoundary key={location.hash} fallback={(error, again) => (
            <div className="p-8"><p className="font-semibold">This screen cannot be drawn.</p><p className="mt-1 text-soft">{error.message}</p><p className="mt-4 flex gap-2"><Button onClick={again}>Try again</Button><Button look="quiet" onClick={() => location.reload()}>Load the page anew</Button></p></div>
          )}>
            <Suspense fallback={<p role="status" className="p-8 text-soft">Loading…</p>}><Screen route={route} /></Suspense>
          </ErrorBoundary>
        </main>
        <aside className="order-1 flex w-66 flex-none flex-col border-r border-line px-3 py-4 max-md:hidden">
          <a href="#/" className="mb-4 flex items-center gap-2.5 px-3 text-lg font-semibold"><img src="/favicon.svg" alt="" width={24} height={24} />Banksman</a>
          <nav aria-label="Main" className="space-y-0.5">
            <NavLink href="#/" on={route.at === "inbox"} icon={<InboxIcon size={17} aria-hidden />} count={n}>Inbox</NavLink>
            <NavLink href="#/history" on={route.at === "history"} icon={<HistoryIcon size={17} aria-hidden />}>Decisions</NavLink>
            <NavLink href="#/rules" on={route.at === "rules"} icon={<ListChecks size={17} aria-hidden />}>Rules</NavLink>
          </nav>
          <h2 className="mt-6 mb-1 px-3 text-[13px] font-medium text-faint">Sessions</h2>
          <div className="min-h-0 flex-1 overflow-y-auto"><SessionList current={current} /></div>
          <Foot onHelp={() => setHelp(true)} />
        </aside>
      </div>
      <nav aria-label="Main" className="flex flex-none border-t border-line bg-card pb-[env(safe-area-inset-bottom)] md:hidden">
        <TabLink href="#/" on={route.at === "inbox"} icon={<InboxIcon size={20} aria-hidden />} count={n}>Inbox</TabLink>
        <TabLink href="#/sessions" on={route.at === "sessions" || route.at === "session" || route.at === "new"} icon={<MessagesSquare size={20} aria-hidden />}>Sessions</TabLink>
        <TabLink href="#/history" on={route.at === "history"} icon={<HistoryIcon size={20} aria-hidden />}>Decisions</TabLink>
        <TabLink href="#/rules" on={route.at === "rules"} icon={<ListChecks size={20} aria-hidden />}>Rules</TabLink>
        <TabLink href="#/settings" on={route.at === "settings"} icon={<SettingsIcon size={20} aria-hidden />}>Settings</TabLink>
      </nav>
      <CliLogins />
      <RuleSheet />
      <LiveRegion />
      {help && <Suspense fallback={null}><Help onClose={() => setHelp(false)} /></Suspense>}
    </div>
  );
}

function Screen({ route }: { route: Route }) {
  switch (route.at) {
    case "inbox": return <Inbox />;
    case "history": return <History />;
    case "rules": return <Rules />;
    case "new": return <StartForm />;
    case "settings": return <Settings />;
    case "sessions": return <div className="px-2 py-4"><h1 className="mb-2 px-3 text-xl font-semibold">Sessions</h1><SessionList current="" /></div>;
    case "interaction": return <One key={route.key} itemKey={route.key} />;
    case "session": return <SessionView key={route.key} sessionKey={route.key} />;
  }
}

/** The page is of another version than the server. */
function NewerBar() {
  if (!useNewer()) return null;
  return (
    <div role="status" data-testid="newer" className="flex flex-none flex-wrap items-center justify-center gap-x-3 bg-accent-wash px-4 py-1.5 text-sm font-medium text-accent">
      The server has a newer version of this page. What you have written is kept.
      <Button small look="quiet" className="text-accent" onClick={() => location.reload()}><RefreshCw size={14} aria-hidden />Load it</Button>
    </div>
  );
}

function Count({ n }: { n: number }) {
  return n > 0 ? <span className="rounded-full bg-line px-2 text-[13px] font-semibold text-ink tabular-nums">{n}<span className="sr-only"> waiting</span></span> : null;
}

function NavLink({ href, on, icon, count = 0, children }: { href: string; on: boolean; icon: ReactNode; count?: number; children: ReactNode }) {
  return (
    <a href={href} aria-current={on ? "page" : undefined} className={`flex min-h-10 items-center gap-2.5 rounded-lg px-3 font-medium ${on ? "bg-sunk text-ink" : "text-soft hover:bg-sunk hover:text-ink"}`}>
      {icon}<span className="flex-1">{children}</span><Count n={count} />
    </a>
  );
}

function TabLink({ href, on, icon, count = 0, children }: { href: string; on: boolean; icon: ReactNode; count?: number; children: ReactNode }) {
  return (
    <a href={href} aria-current={on ? "page" : undefined} className={`relative flex min-h-14 flex-1 flex-col items-center justify-center gap-0.5 text-xs font-medium ${on ? "text-accent" : "text-soft"}`}>
      {icon}{children}
      {count > 0 && (
        <span className="absolute top-1 left-1/2 ml-1.5 flex h-4.5 min-w-4.5 items-center justify-center rounded-full bg-accent px-1 text-[11px] leading-none font-semibold text-accent-ink tabular-nums ring-2 ring-card">
          {count > 99 ? "99+" : count}<span className="sr-only"> waiting</span>
        </span>
      )}
    </a>
  );
}

const next: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

function Foot({ onHelp }: { onHelp: () => void }) {
  const app = useApp();
  const { principal } = useAppState();
  const [theme, setTheme] = useState(loadTheme);
  return (
    <div className="mt-3 space-y-1 border-t border-line pt-3">
      <div className="flex items-center gap-1 px-1">
        <Button small look="quiet" title={`Colours: ${theme}`} aria-label={`Colours: ${theme}`} data-testid="theme" onClick={() => { saveTheme(next[theme]); setTheme(next[theme]); }}>
          {theme === "system" ? <SunMoon size={17} aria-hidden /> : theme === "light" ? <Sun size={17} aria-hidden /> : <Moon size={17} aria-hidden />}
        </Button>
        <Button small look="quiet" title="Keys" aria-label="Keys" onClick={onHelp}><CircleHelp size={17} aria-hidden /></Button>
        <a href="#/settings" title="Settings" aria-label="Settings" data-testid="settings-link" className="inline-flex min-h-9 items-center rounded-lg px-3 text-soft hover:bg-sunk hover:text-ink max-md:min-h-11"><SettingsIcon size={17} aria-hidden /></a>
        <Button small look="quiet" title="Sign out here" aria-label="Sign out here" onClick={app.signOut}><LogOut size={17} aria-hidden /></Button>
        <span data-testid="principal" className="ml-auto truncate pr-2 text-[13px] text-faint">{principal ? principal.name || principal.id : ""}</span>
      </div>
    </div>
  );
}

/** The state of the link. Silent while all is well. */
function ConnBar() {
  const app = useApp();
  const { conn, snapshot } = useAppState();
  const now = useNow(0, conn.status === "lost" ? new Date(conn.at).toISOString() : undefined);
  const first = conn.status === "connecting" && snapshot === "loading";
  let text = "";
  if (conn.status === "connecting" && !first) text = "Connecting again…";
  if (conn.status === "lost") text = conn.at > now + 1000 ? `Connection lost. Next try in ${Math.ceil((conn.at - now) / 1000)} s. Decisions are off until then.` : "Connection lost. Trying again. Decisions are off until then.";
  if (conn.status === "stopped") text = `The server ended the connection${conn.reason ? `: ${conn.reason}` : ""} (${conn.code}).`;
  return (
    <div role="region" aria-label="Connection" data-testid="conn-status" data-status={conn.status} className={text === "" ? "sr-only" : "flex flex-none flex-wrap items-center justify-center gap-x-3 bg-ink px-4 py-1.5 text-sm font-medium text-page"}>
      {text === "" ? (conn.status === "online" ? "Connected" : "Connecting") : <><WifiOff size={16} aria-hidden />{text}</>}
      {(conn.status === "lost" || conn.status === "stopped") && <Button small look="plain" onClick={() => app.client.retry()}><RefreshCw size={14} aria-hidden />Try now</Button>}
    </div>
  );
}
