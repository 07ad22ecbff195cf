import { ArrowDownNarrowWide, Clock, LoaderCircle, Rows3, SquareStack } from "lucide-react";
import { type ReactNode, Suspense, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { Card } from "../cards/Card";
import { useCardKeys } from "../cards/keys";
import { useNow } from "../cards/useNow";
import { BatchSheet } from "../cards/wanted";
import { byDeadline, cardState, draftText, order, pendingKeys, type Say, type Summary } from "@banksman/client";
import { keepSetting, setting } from "../store/settings";
import { useAppState, useCards } from "../ui/context";
import { Button } from "../ui/controls";
import { rootOf } from "../ui/place";
import { Empty } from "./Empty";
import { selectable } from "./row";
import { Row } from "./Row";
import { useOrder } from "./useOrder";

const MAX_RECEIPTS = 20;
const HELD_RECEIPTS = 100; // while somebody is at the list, as a finger on a phone always is
const MANY = 8; // from so many on the overview is what one sees first
const CARDS = 30; // whole cards drawn at once
const KINDS: Record<string, string> = { approval: "Approvals", question: "Questions", form: "Forms" };

type View = "cards" | "rows";

/** All that waits, in all sessions. What is decided here stays as a receipt until cleared. */
export function Inbox({ empty }: { empty?: ReactNode }) {
  const app = useCards();
  const state = useAppState();
  const now = useNow(state.offset);
  const pending = pendingKeys(state);
  const [kept, setKept] = useState<readonly string[]>([]);
  const [sort, setSort] = useState<"age" | "deadline">("age");
  const [filter, setFilter] = useState({ project: "", agent: "", kind: "" });
  const [chosen, setChosen] = useState(() => setting("inbox"));
  const [first, setFirst] = useState<View | "">(""); // what fits what waited first
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [sheet, setSheet] = useState(false);
  const [most, setMost] = useState(CARDS);
  const list = useRef<HTMLDivElement>(null);
  const loading = state.snapshot === "loading";

  // Cards seen open on this screen keep their place when they end.
  const known = new Set(kept);
  const news = pending.filter((k) => !known.has(k));
  if (news.length > 0) setKept([...kept, ...news]);
  // The view does not change under the hand: it follows what was there at first.
  if (first === "" && !loading && pending.length > 0) setFirst(pending.length > MANY ? "rows" : "cards");
  const view: View = chosen === "rows" || chosen === "cards" ? chosen : first || "cards";

  const shown = kept.filter((k) => state.items[k]);
  const values = {
    project: distinct(pending.map((k) => state.items[k]!.summary.project_id ?? "")),
    agent: distinct(pending.map((k) => agentOf(state.items[k]!.summary))),
    kind: distinct(pending.map((k) => state.items[k]!.summary.kind)),
  };
  const fits = (want: string, offered: string[], has: string) => want === "" || !offered.includes(want) || has === want;
  const sorted = shown
    .filter((k) => {
      const s = state.items[k]!.summary;
      return fits(filter.project, values.project, s.project_id ?? "") && fits(filter.agent, values.agent, agentOf(s)) && fits(filter.kind, values.kind, s.kind);
    })
    .sort((a, b) => (sort === "age" ? order : byDeadline)(state.items[a]!.summary, state.items[b]!.summary));
  const { keys: visible, held } = useOrder(sorted, sort, list);
  // The oldest receipts go while nobody points at the list or works in it, and none with words that were not sent.
  useEffect(() => {
    const closed = kept.filter((k) => state.items[k]?.closed && draftText(app.drafts.load(k)) === "");
    const limit = held ? HELD_RECEIPTS : MAX_RECEIPTS;
    if (closed.length <= limit) return;
    const gone = new Set(closed.slice(0, closed.length - limit));
    setKept(kept.filter((k) => !gone.has(k)));
  }, [kept, state.items, held, app]);
  const receipts = shown.filter((k) => state.items[k]!.closed);
  // Receipts take no place from what waits.
  let waiting = 0;
  const listed = view === "cards" ? visible.filter((k) => state.items[k]!.closed || waiting++ < most) : visible;
  const picked = listed.filter((k) => selected.has(k) && selectable(state.items[k]));
  const isPicked = new Set(picked);

  const select = useCallback((key: string) => setSelected((old) => flipped(old, key)), []);
  const drop = useCallback((key: string) => setSelected((old) => without(old, key)), []);
  const say = useCallback((key: string, what: Say) => app.respond(key, what), [app]);
  const near = useCallback((key: string) => void app.client.load(key), [app]);
  // Whoever opens a row goes on in its card, which stands in the row's place.
  const next = useRef("");
  const openRow = useCallback((key: string) => {
    next.current = key;
    setOpened((old) => new Set(old).add(key));
  }, []);
  const closeRow = (key: string) => {
    next.current = key;
    setOpened(without(opened, key));
  };
  useLayoutEffect(() => {
    if (next.current === "") return;
    list.current?.querySelector<HTMLElement>(`[data-entry="${CSS.escape(next.current)}"] [data-card]`)?.focus({ preventScroll: true });
    next.current = "";
  }, [opened]);

  const show = (v: View) => {
    setChosen(v);
    keepSetting("inbox", v);
    setOpened(new Set());
  };
  const selectSeen = () => {
    const floor = rootOf(list.current) instanceof Document ? window.innerHeight : Infinity;
    const keys = [...(list.current?.querySelectorAll<HTMLElement>("[data-entry]") ?? [])].filter((el) => {
      const box = el.getBoundingClientRect();
      return box.top >= 0 && box.bottom <= floor;
    }).map((el) => el.dataset.entry!);
    setSelected(new Set([...selected, ...keys.filter((k) => selectable(state.items[k]))]));
  };

  // A page that embeds this has a heading of its own.
  const Title = app.embedded ? "h2" : "h1";
  return (
    <div data-testid="inbox" data-view={view} data-loading={loading || undefined} className="mx-auto flex w-full max-w-3xl flex-col gap-4 px-4 py-6 md:px-8">
      {/* The tools stand after the cards in tab order: the first decision is near. */}
      <div ref={list} className="order-2 flex flex-col gap-4">
        {view === "cards" ? listed.map((k) => (
          <Entry key={k} itemKey={k} toggle={selectable(state.items[k]) ? select : undefined} selected={isPicked.has(k)}><Card itemKey={k} /></Entry>
        )) : listed.length > 0 && (
          <div role="list" className="divide-y divide-line overflow-clip rounded-2xl border border-line bg-card">
            {listed.map((k) => {
              const item = state.items[k]!;
              const session = state.sessions[item.summary.session_key];
              return (
                <div key={k} role="listitem" data-entry={k} className={opened.has(k) ? "space-y-2 bg-page p-2" : "[contain-intrinsic-size:auto_84px] [content-visibility:auto]"}>
                  {opened.has(k) ? (
                    <>
                      <Entry itemKey={k} toggle={selectable(item) ? select : undefined} selected={isPicked.has(k)}><Card itemKey={k} /></Entry>
                      <Button small look="quiet" className="w-full" aria-label={`Fold: ${item.summary.headline}`} onClick={() => closeRow(k)}>Fold</Button>
                    </>
                  ) : (
                    <Row item={item} card={cardState(state, k)} session={session?.title} offline={state.conn.status !== "online"} selected={isPicked.has(k)} now={now} offset={state.offset} onOpen={openRow} onSelect={select} onSay={say} onNear={near} />
                  )}
                </div>
              );
            })}
          </div>
        )}
        {visible.length > listed.length && (
          <Button data-testid="more-cards" onClick={() => setMost(most + CARDS)}>Show {Math.min(CARDS, visible.length - listed.length)} more, {visible.length - listed.length} are not drawn yet</Button>
        )}
        {loading && visible.length === 0 && (
          <p role="status" className="flex items-center gap-3 rounded-2xl border border-dashed border-line p-8 text-soft">
            <LoaderCircle size={18} aria-hidden className="animate-spin" />Asking the server what waits…
          </p>
        )}
        {!loading && pending.length === 0 && (empty ?? <Empty quiet={receipts.length > 0} />)}
        {!loading && pending.length > 0 && visible.length === 0 && <p className="text-soft">Nothing matches these filters. {pending.length} wait in all.</p>}
      </div>
      {/* One line of tools that is there as soon as a card is, and never wraps: what comes later must not push the cards down. */}
      <div className="order-1 space-y-1">
        <Title className="text-xl font-semibold">
          {loading && pending.length === 0 ? "Inbox" : pending.length === 0 ? "Nothing waits for you" : pending.length === 1 ? "1 request waits for you" : `${pending.length} requests wait for you`}
        </Title>
        {shown.length > 0 && (
          <Tools>
            <Button small disabled={pending.length < 2} onClick={() => setSort(sort === "age" ? "deadline" : "age")} title="Change the order">
              {sort === "age" ? <ArrowDownNarrowWide size={15} aria-hidden /> : <Clock size={15} aria-hidden />}
              {sort === "age" ? "Newest last" : "Due first"}
            </Button>
            <Button small data-testid="view" onClick={() => show(view === "cards" ? "rows" : "cards")} title={view === "cards" ? "One line for each" : "All of each"}>
              {view === "cards" ? <Rows3 size={15} aria-hidden /> : <SquareStack size={15} aria-hidden />}
              {view === "cards" ? "Overview" : "Whole cards"}
            </Button>
            <Filter label="Project" name="project" all="All projects" values={values.project} filter={filter} onChange={setFilter} />
            <Filter label="Agent" name="agent" all="All agents" values={values.agent} filter={filter} onChange={setFilter} />
            <Filter label="Kind" name="kind" all="All kinds" values={values.kind} filter={filter} onChange={setFilter} />
            {view === "rows" && <Button small look="quiet" data-testid="select-seen" onClick={selectSeen} title="Approvals that are whole on the screen now">Select what is on screen</Button>}
            {receipts.length > 0 && <Button small look="quiet" onClick={() => setKept(kept.filter((k) => !state.items[k]?.closed))}>Clear receipts</Button>}
          </Tools>
        )}
      </div>
      {picked.length > 0 && (
        <div role="region" aria-label="Selection" data-testid="selection" className="sticky bottom-3 z-20 order-3 flex flex-wrap items-center justify-between gap-2 rounded-2xl border border-accent bg-card px-4 py-2 shadow-card">
          <span className="text-sm font-medium">{picked.length} selected</span>
          <span className="flex gap-2">
            <Button small look="quiet" onClick={() => setSelected(new Set())}>Clear</Button>
            <Button small look="solid" data-testid="batch-open" onClick={() => setSheet(true)}>Review them all</Button>
          </span>
        </div>
      )}
      {sheet && <Suspense fallback={<p role="status" data-testid="batch-loading" className="order-4 text-sm text-soft">Loading the list of what is decided…</p>}><BatchSheet keys={picked} onDrop={drop} onClose={() => setSheet(false)} /></Suspense>}
    </div>
  );
}

/** One line that scrolls sideways where it is too long, and fades out where there is more of it. */
function Tools({ children }: { children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  const [more, setMore] = useState("");
  const look = useCallback(() => {
    const el = box.current;
    if (!el) return;
    const left = el.scrollLeft > 4;
    const right = el.scrollWidth - el.clientWidth - el.scrollLeft > 4;
    setMore(left && right ? "both" : right ? "right" : left ? "left" : "");
  }, []);
  // With the frame's own layout: asked for earlier, it would have the page laid out twice.
  useEffect(() => {
    const frame = requestAnimationFrame(look);
    return () => cancelAnimationFrame(frame);
  });
  useEffect(() => {
    window.addEventListener("resize", look);
    return () => window.removeEventListener("resize", look);
  }, [look]);
  return (
    <div ref={box} role="group" aria-label="Order and filters" data-testid="tools" data-more={more || undefined} onScroll={look}
      className="fades -mx-1 flex h-13 items-center gap-2 overflow-x-auto overflow-y-hidden px-1 [scrollbar-width:none] *:flex-none">{children}</div>
  );
}

/** A card that `x` selects. */
function Entry({ itemKey, toggle, selected, children }: { itemKey: string; toggle: ((key: string) => void) | undefined; selected: boolean; children: ReactNode }) {
  const keys = useCardKeys(() => (toggle ? { x: () => toggle(itemKey) } : {}));
  return <div {...keys} data-entry={itemKey} data-selected={selected || undefined} className={selected ? "rounded-2xl outline-2 outline-offset-2 outline-accent" : ""}>{children}</div>;
}

function agentOf(s: Summary): string {
  return s.agent_name || s.owner;
}

function distinct(list: string[]): string[] {
  return [...new Set(list)].sort();
}

function without(set: ReadonlySet<string>, key: string): ReadonlySet<string> {
  const next = new Set(set);
  next.delete(key);
  return next;
}

function flipped(set: ReadonlySet<string>, key: string): ReadonlySet<string> {
  return set.has(key) ? without(set, key) : new Set(set).add(key);
}

type Filters = { project: string; agent: string; kind: string };

function Filter({ label, name, all, values, filter, onChange }: { label: string; name: keyof Filters; all: string; values: string[]; filter: Filters; onChange: (f: Filters) => void }) {
  if (values.length < 2) return null;
  return (
    <select aria-label={label} value={filter[name]} onChange={(e) => onChange({ ...filter, [name]: e.target.value })} className="min-h-9 max-w-44 rounded-lg border border-edge/60 bg-card px-2 text-sm max-md:min-h-11">
      <option value="">{all}</option>
      {values.filter((v) => v !== "").map((v) => <option key={v} value={v}>{name === "kind" ? (KINDS[v] ?? v) : v}</option>)}
    </select>
  );
}
