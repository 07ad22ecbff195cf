import { act, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { NewRule, Rule, RulePreview } from "@banksman/client";
import { ada, bash, closed, decision, me, processState, summary } from "@banksman/client/testing";
import { receiptLine } from "../cards/words";
import { KEY_PAUSE } from "../cards/keys";
import { online } from "../testing/harness";
import { mount } from "../testing/mount";
import { openSheet } from "./open";
import { lasting } from "./words";

const hour = 3600_000;

function rule(over: Partial<Rule> = {}): Rule {
  return {
    id: "r1", effect: "allow", title: "git status", text: "Allows the command git status. For requests of build-7 (agents) in the project shop.",
    match: { scope: "project", tenant: "default", owner: "agents", kind: "approval", tool: "Bash", pattern: "words", max_risk: "medium" },
    maker: me, created_at: new Date().toISOString(), expires_at: new Date(Date.now() + hour).toISOString(), uses: 0, state: "active", ...over,
  };
}

function preview(wish: NewRule, over: Partial<RulePreview> = {}): RulePreview {
  return {
    rule: rule({ text: `The rule by ${wish.pattern} in ${wish.scope}` }),
    patterns: [{ id: "exact", text: "exactly this command: git status" }, { id: "words", text: "the command git status" }],
    scopes: [{ id: "session", text: "of build-7 in this one session" }, { id: "project", text: "of build-7 in the project shop" }],
    pending: [{ request_id: wish.request_id, digest: wish.digest, headline: "this", input: "git status", created_at: new Date().toISOString() }],
    recent: [{ request_id: "old", digest: "x", headline: "old", input: "git status -s", created_at: new Date().toISOString(), outcome: "denied" }],
    others: [], looked: 12, examples: [{ text: "git status && rm -rf build", why: "the second part is allowed by no rule" }], max_expires_in: 30 * 24 * 3600, ...over,
  };
}

const shown = () => bash("a", "git status", { risk: "medium", project_id: "shop" });

// What comes later in a page is fetched before the clock of a test runs.
beforeAll(async () => {
  await Promise.all([import("./Sheet"), import("./Rules")]);
});
beforeEach(() => act(() => openSheet(undefined)));

async function open(h = online([shown()]), item = "In the project shop…") {
  h.api.preview ??= (w) => preview(w);
  const m = mount(h);
  await m.user.click(screen.getByTestId("always"));
  await m.user.click(within(screen.getByRole("menu")).getByText(item));
  await screen.findByTestId("rule-text");
  return { h, ...m };
}

describe("Always", () => {
  it("B-59: is a menu of true scopes beside Approve, and makes nothing by itself", async () => {
    const h = online([shown()]);
    h.api.preview = (w) => preview(w);
    const { user } = mount(h);
    expect(screen.queryByRole("menu")).toBeNull();
    await user.click(screen.getByTestId("always"));
    expect(screen.getAllByRole("menuitem").map((i) => i.firstChild?.textContent)).toEqual(["In this session…", "In the project shop…", "Choose…", "Always deny such requests…"]);
    expect(document.activeElement).toBe(screen.getAllByRole("menuitem")[0]);
    await user.keyboard("{ArrowDown}{ArrowDown}{ArrowDown}{ArrowDown}");
    expect(document.activeElement).toBe(screen.getAllByRole("menuitem")[0]);
    await user.keyboard("y");
    expect(h.answers()).toEqual([]);
    await user.keyboard("{Escape}");
    expect(screen.queryByRole("menu")).toBeNull();
    expect(document.activeElement).toBe(screen.getByTestId("always"));
    expect(h.api.wishes).toEqual([]);
    expect(h.api.calls.filter((c) => c.startsWith("make"))).toEqual([]);
  });

  it("lets nothing through that is critical: such a request can be denied from now on", async () => {
    const { user } = mount(online([bash("a", "x", { risk: "critical" })]));
    await user.click(screen.getByTestId("always"));
    expect(screen.getAllByRole("menuitem").map((i) => i.firstChild?.textContent)).toEqual(["Always deny such requests…"]);
  });

  it("makes a rule that denies, from its own sheet, and says what that denies now", async () => {
    const h = online([shown()]);
    h.api.preview = (w) => preview(w, { pending: [...preview(w).pending!, { request_id: "default.agents.b", digest: "digest-b", headline: "b", input: "git status", created_at: new Date().toISOString() }] });
    const { user } = await open(h, "Always deny such requests…");
    expect(h.api.wishes.at(-1)).toMatchObject({ effect: "deny", request_id: shown().key });
    const sheet = screen.getByTestId("rule-sheet");
    expect(sheet).toHaveTextContent("Deny this from now on");
    expect(sheet).not.toHaveTextContent(/[Aa]pprove it too|and approve/);
    await user.click(screen.getByLabelText(/Deny it too/));
    expect(screen.getByTestId("rule-make")).toHaveTextContent("Make the rule and deny 2");
    h.api.make = (w) => ({ rule: rule({ effect: "deny" }), applied: (w.apply ?? []).map(() => ({ status: "accepted" as const })) });
    await user.click(screen.getByTestId("rule-make"));
    await waitFor(() => expect(screen.queryByTestId("rule-sheet")).toBeNull());
    const made = JSON.parse(h.api.calls.find((c) => c.startsWith("make"))!.slice(5)) as NewRule;
    expect(made).toMatchObject({ effect: "deny", apply: [{ digest: "digest-a" }, { digest: "digest-b" }] });
    expect(h.answers()).toEqual([]);
  });

  it("opens with Approve, not before the whole text was seen", () => {
    mount(online([bash("a", "x\n".repeat(60), { risk: "medium" }, { lines: 60 })]));
    expect(screen.getByTestId("approve")).toBeDisabled();
    expect(screen.getByTestId("always")).toBeDisabled();
  });

  it("shows the rule's own words, what it would match and what not, before it is made", async () => {
    const { h, user } = await open();
    expect(screen.getByTestId("rule-text")).toHaveTextContent("The rule by exact in project");
    const sheet = screen.getByTestId("rule-sheet");
    expect(sheet).toHaveTextContent("of the last 12 of this tool");
    expect(sheet).toHaveTextContent("git status -s");
    expect(sheet).toHaveTextContent("git status && rm -rf build");
    await user.click(within(sheet).getByLabelText("the command git status"));
    await waitFor(() => expect(screen.getByTestId("rule-text")).toHaveTextContent("The rule by words in project"));
    h.api.make = (w) => ({ rule: rule(), applied: (w.apply ?? []).map(() => ({ status: "accepted" as const })) });
    await user.type(screen.getByTestId("rule-uses"), "5");
    expect(screen.getByTestId("rule-make")).toHaveTextContent("Make the rule and approve this");
    await user.click(screen.getByTestId("rule-make"));
    await waitFor(() => expect(screen.queryByTestId("rule-sheet")).toBeNull());
    const made = JSON.parse(h.api.calls.find((c) => c.startsWith("make"))!.slice(5)) as NewRule;
    expect(made).toEqual({
      request_id: shown().key, digest: "digest-a", effect: "allow", pattern: "words", scope: "project", expires_in: 8 * 3600, max_uses: 5,
      apply: [{ request_id: shown().key, digest: "digest-a" }],
    });
    // The card itself answers nothing: the rule does, at the server.
    expect(h.answers()).toEqual([]);
  });

  it("decides what else waits only if it is ticked", async () => {
    const h = online([shown()]);
    h.api.preview = (w) => preview(w, { pending: [...preview(w).pending!, { request_id: "default.agents.b", digest: "digest-b", headline: "b", input: "git status", created_at: new Date().toISOString() }] });
    const { user } = await open(h);
    h.api.make = (w) => ({ rule: rule(), applied: (w.apply ?? []).map((t) => (t.request_id.endsWith("b") ? { status: "already_decided" as const, error: "decided already" } : { status: "accepted" as const })) });
    expect(screen.getByTestId("rule-make")).toHaveTextContent("Make the rule and approve this");
    await user.click(screen.getByLabelText(/Approve it too/));
    await user.click(screen.getByLabelText(/This request/));
    await user.click(screen.getByLabelText(/This request/));
    expect(screen.getByTestId("rule-make")).toHaveTextContent("Make the rule and approve 2");
    await user.click(screen.getByTestId("rule-make"));
    // What went wrong is told, also when the card is gone meanwhile.
    await screen.findByText("b: decided already");
    act(() => h.push(processState([], { closed: [closed(shown(), "allowed", { principal: { kind: "rule", id: "r1", name: "a rule of Sam" }, comment: "Rule r1, made by Sam: Allows git status" })] })));
    expect(screen.getByTestId("rule-sheet")).toHaveTextContent("b: decided already");
  });

  it("says why no rule can be made, and makes none with a wrong number of uses", async () => {
    const h = online([shown()]);
    h.api.preview = (w) => preview(w);
    const { user } = await open(h);
    await user.type(screen.getByTestId("rule-uses"), "0.5");
    expect(screen.getByTestId("rule-make")).toBeDisabled();
    h.app.rules.previewRule = () => Promise.reject(new Error("a request of this risk is allowed by people only"));
    await user.click(screen.getByLabelText("the command git status"));
    expect(await screen.findByText(/by people only/)).toBeInTheDocument();
    expect(screen.getByTestId("rule-make")).toBeDisabled();
    expect(h.api.calls.filter((c) => c.startsWith("make"))).toEqual([]);
  });

  it("the card's keys do not act behind the sheet", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    try {
      const { h } = await open();
      vi.advanceTimersByTime(KEY_PAUSE * 3);
      fireEvent.keyDown(screen.getByTestId("rule-sheet"), { key: "y" });
      fireEvent.keyDown(screen.getByTestId("rule-make"), { key: "n" });
      expect(h.answers()).toEqual([]);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("the page of rules", () => {
  it("lists them with use, end and maker, follows changes, and revokes after a second press", async () => {
    location.hash = "#/rules";
    const h = online();
    h.api.list = [rule({ may_revoke: true, max_uses: 10, uses: 3 }), rule({ id: "r2", title: "git push", effect: "deny", maker: ada }), rule({ id: "r3", state: "revoked", revoked_by: ada, revoked_at: new Date().toISOString() })];
    try {
      const { user, push } = mount(h);
      const row = await screen.findByTestId("rule-r1");
      expect(row).toHaveTextContent("git status");
      expect(row).toHaveTextContent(/Made by you/);
      expect(row).toHaveTextContent("7 of 10 uses left");
      expect(row).toHaveTextContent(/Until/);
      expect(screen.getByTestId("rule-r2")).toHaveTextContent(/Made by Ada/);
      expect(within(screen.getByTestId("rule-r2")).queryByTestId("revoke")).toBeNull();
      expect(screen.getByTestId("rule-r3")).toHaveTextContent(/Revoked by Ada/);
      await user.click(within(row).getByTestId("revoke"));
      expect(h.api.calls.filter((c) => c.startsWith("revoke"))).toEqual([]);
      await user.click(within(row).getByTestId("revoke-sure"));
      expect(h.api.calls.filter((c) => c.startsWith("revoke"))).toEqual(["revoke r1"]);
      h.api.list = [];
      push({ type: "rules_changed" });
      await screen.findByText(/No rule is in force/);
    } finally {
      location.hash = "";
    }
  });

  it("says what was never used, what ends soon, and who changed what", async () => {
    location.hash = "#/rules";
    const h = online();
    const soon = new Date(Date.now() + 20 * 60_000 - 5_000).toISOString();
    h.api.list = [rule({ expires_at: soon }), rule({ id: "r2", max_uses: 3 }), rule({
      id: "r3", version: 2, expires_at: new Date(Date.now() + 9 * hour).toISOString(),
      changes: [{ version: 2, at: new Date().toISOString(), by: ada, what: "at most 3 times, was once", expires_at: soon }],
    })];
    try {
      mount(h);
      expect(await screen.findByTestId("rule-r1")).toHaveTextContent(/in 20 minutes; never used/);
      expect(screen.getByTestId("rule-r2")).toHaveTextContent("never used, 3 of 3 uses left");
      expect(screen.getByTestId("rule-r3")).toHaveTextContent(/Version 2: at most 3 times, was once\. By Ada/);
      expect(screen.getByTestId("rule-r3")).not.toHaveTextContent("minutes");
      expect(screen.queryByTestId("rule-decisions")).toBeNull();
    } finally {
      location.hash = "";
    }
  });

  it("lists what one rule decided, page by page", async () => {
    location.hash = "#/rules";
    const h = online();
    h.api.list = [rule({ uses: 2 })];
    const decided = (id: string, headline: string) => ({ id, ...summary(id, { headline }), state: "closed" as const, outcome: "allowed" as const, decision: decision(summary(id), "allowed") });
    h.api.pages = (s) => (s.before ? { interactions: [decided("b", "the older one")] } : { interactions: [decided("a", "the newer one")], next: "further" });
    try {
      const { user } = mount(h);
      await user.click(await screen.findByTestId("rule-decisions"));
      const list = within(await screen.findByTestId("rule-decided"));
      expect(await list.findByText("the newer one")).toHaveAttribute("href", "#/i/default.agents.a");
      await user.click(list.getByText("Further back"));
      expect(await list.findByText("the older one")).toBeInTheDocument();
      expect(list.queryByText("Further back")).toBeNull();
      expect(h.api.calls.filter((c) => c.startsWith("decisions"))).toEqual(['decisions {"rule":"r1","limit":20}', 'decisions {"rule":"r1","limit":20,"before":"further"}']);
    } finally {
      location.hash = "";
    }
  });

  it("changes how long and how often, as the version that was seen", async () => {
    location.hash = "#/rules";
    const h = online();
    h.api.list = [rule({ uses: 2, max_uses: 5, version: 3, may_change: true, max_expires_in: 7 * 24 * 3600 }), rule({ id: "r2" })];
    try {
      const { user } = mount(h);
      const row = within(await screen.findByTestId("rule-r1"));
      expect(within(screen.getByTestId("rule-r2")).queryByTestId("rule-change")).toBeNull();
      await user.click(row.getByTestId("rule-change"));
      const form = within(row.getByTestId("rule-changing"));
      expect(form.getByText("Change it")).toBeDisabled();
      expect(form.queryByText("30 days")).toBeNull();
      await user.selectOptions(form.getByLabelText(/How long/), "1 day");
      await user.clear(form.getByLabelText(/How often/));
      await user.type(form.getByLabelText(/How often/), "2");
      expect(form.getByText("Change it")).toBeDisabled();
      await user.type(form.getByLabelText(/How often/), "0");
      await user.click(form.getByText("Change it"));
      expect(await form.findByRole("alert")).toHaveTextContent("Not changed");
      h.api.replies["POST /api/rules/r1"] = rule();
      await user.click(form.getByText("Change it"));
      await waitFor(() => expect(screen.queryByTestId("rule-changing")).toBeNull());
      expect(h.api.calls.filter((c) => c.startsWith("POST")).at(-1)).toBe('POST /api/rules/r1 {"version":3,"expires_in":86400,"max_uses":20}');
    } finally {
      location.hash = "";
    }
  });

  it("B-59: what a rule matches is changed as a new version, read first, and what waits is decided only if chosen", async () => {
    location.hash = "#/rules";
    const h = online();
    const from = { request_id: "default.agents.a", digest: "d" };
    h.api.preview = (w) => preview(w, w.pattern === "words" && w.scope === "project" ? { rule: rule() } : {});
    h.app.rules.rules = () => Promise.resolve([rule({ version: 3, from, may_change: true, max_expires_in: 3600, changes: [{ version: 3, at: new Date().toISOString(), by: ada, what: "matches something else", expires_at: new Date().toISOString(), text: "Allows the command git log." }] })]);
    try {
      const { user } = mount(h);
      const row = within(await screen.findByTestId("rule-r1"));
      expect(screen.getByTestId("rule-r1")).toHaveTextContent("Version 3: matches something else. By Ada");
      expect(screen.getByTestId("rule-r1")).toHaveTextContent("Before: Allows the command git log.");
      await user.click(row.getByTestId("rule-change"));
      await user.click(row.getByTestId("rule-rematch"));
      const sheet = within(await screen.findByTestId("rule-sheet"));
      await sheet.findByText("So it is now:");
      expect(sheet.getByTestId("rule-make")).toBeDisabled();
      await user.click(sheet.getByLabelText("exactly this command: git status"));
      await sheet.findByText("It would be:");
      expect(sheet.getByTestId("rule-make")).toHaveTextContent("Change the rule");
      await user.click(sheet.getByTestId("rule-make"));
      await sheet.findByText(/^nothing at/); // as an older version is refused
      await user.click(sheet.getByLabelText(/Approve it too/));
      h.api.replies["POST /api/rules/r1"] = rule();
      expect(sheet.getByTestId("rule-make")).toHaveTextContent("Change the rule and approve 1");
      await user.click(sheet.getByTestId("rule-make"));
      await waitFor(() => expect(screen.queryByTestId("rule-sheet")).toBeNull());
      const sent = h.api.calls.filter((c) => c.startsWith("POST /api/rules/r1")).map((c) => JSON.parse(c.slice("POST /api/rules/r1 ".length)) as unknown);
      const match = { ...from, pattern: "exact", scope: "project" };
      expect(sent).toEqual([{ version: 3, match }, { version: 3, match, apply: [from] }]);
    } finally {
      location.hash = "";
    }
  });

  it("says when they could not be fetched: that is not no rules", async () => {
    location.hash = "#/rules";
    const h = online();
    h.app.rules.rules = () => Promise.reject(new Error("down"));
    try {
      mount(h);
      await screen.findByText(/could not be fetched: down/);
      expect(screen.queryByText(/No rule is in force/)).toBeNull();
    } finally {
      location.hash = "";
    }
  });
});

it("a receipt says by which rule, and whose", () => {
  const s = summary("a");
  const d = decision(s, "allowed", { principal: { kind: "rule", id: "r1", name: "a rule of Ada" }, channel: "rule", comment: "Rule r1, made by Ada: Allows the command git status." });
  expect(receiptLine("approval", "allowed", d, false, false, Date.parse(d.decided_at))).toMatch(/^Approved by a rule of Ada, \d\d:\d\d$/);
  const h = online([s]);
  const { push } = mount(h);
  push(processState([], { closed: [{ ...closed(s, "allowed"), decision: d }] }));
  expect(screen.getByTestId("receipt-a")).toHaveTextContent("Rule r1, made by Ada: Allows the command git status.");
});

it("offers times up to the longest, and the evening only while it is ahead", () => {
  const noon = new Date();
  noon.setHours(12, 0, 0, 0);
  expect(lasting(noon.getTime(), 24 * 3600).map((l) => l.text)).toEqual(["1 hour", "until 18:00 today", "8 hours", "1 day"]);
  noon.setHours(19, 0, 0, 0);
  expect(lasting(noon.getTime(), 24 * 3600).map((l) => l.text)).toEqual(["1 hour", "8 hours", "1 day"]);
});
