import { act, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { GatewayError } from "@banksman/client";
import { ada, ask, at, bash, closed, decision, processState, question, system } from "@banksman/client/testing";
import { harness, online } from "../testing/harness";
import { mount } from "../testing/mount";

const past = (id: string, over = {}) => ({ id, ...closed(bash(id, `make ${id}`), "denied", { principal: ada, decided_at: at(5), ...over }) });
const asked = (h: ReturnType<typeof online>) => h.api.calls.filter((c) => c.startsWith("decisions")).map((c) => JSON.parse(c.slice(10)) as Record<string, unknown>);

describe("history", () => {
  it("C-15: lists decisions with receipts, payload, and the ways to request and session", async () => {
    location.hash = "#/history";
    const h = online([]);
    h.api.closed = [past("old", { message: "not today" })];
    const { push } = mount(h);
    push(processState([]));
    const receipt = await screen.findByTestId("receipt-old");
    expect(receipt).toHaveTextContent("Denied by Ada");
    expect(receipt).toHaveTextContent("not today");
    expect(receipt).toHaveTextContent("make old");
    expect(screen.getByText("Open it")).toHaveAttribute("href", "#/i/default.agents.old");
    expect(screen.getByText("Open its session")).toHaveAttribute("href", "#/s/default.agents.s1");
    expect(screen.getByTestId("history")).toHaveTextContent("That is all.");
  });

  it("searches by words and filters on the server", async () => {
    location.hash = "#/history";
    const h = online([]);
    const { user } = mount(h);
    await user.type(await screen.findByTestId("history-q"), 'push "to main"');
    await user.click(screen.getByTestId("history-search"));
    await user.selectOptions(screen.getByTestId("history-outcome"), "denied");
    await user.type(screen.getByTestId("history-who"), "Ada{Enter}");
    expect(asked(h).at(-1)).toEqual({ q: 'push "to main"', outcome: ["denied"], who: "Ada", limit: 50 });
    expect(await screen.findByText("No decision matches.")).toBeInTheDocument();
    await user.click(screen.getByText("Clear"));
    expect(asked(h).at(-1)).toEqual({ limit: 50 });
  });

  it("goes on further back where one search ended, says how far it looked, and doubles nothing", async () => {
    location.hash = "#/history";
    const h = online([]);
    h.api.pages = (s) => (s.before === undefined ? { interactions: [past("a")], next: "place", read_to: at(-3600) } : { interactions: [past("a"), past("b")] });
    const { user } = mount(h);
    expect(await screen.findByText(/Looked back to/)).toBeInTheDocument();
    await user.click(screen.getByTestId("history-more"));
    expect(asked(h).at(-1)).toEqual({ limit: 50, before: "place" });
    expect(await screen.findByTestId("receipt-b")).toBeInTheDocument();
    expect(screen.getAllByTestId("receipt-a")).toHaveLength(1);
  });

  it("a page that found nothing yet does not say that there is nothing", async () => {
    location.hash = "#/history";
    const h = online([]);
    h.api.pages = () => ({ interactions: [], next: "place", read_to: at(0) });
    mount(h);
    expect(await screen.findByText(/Nothing so far/)).toBeInTheDocument();
    expect(screen.queryByText("No decision yet.")).toBeNull();
  });

  it("a failed load looks different from an empty one and can be tried again", async () => {
    location.hash = "#/history";
    const h = online([]);
    h.api.fail = true;
    const { user } = mount(h);
    expect(await screen.findByRole("alert")).toHaveTextContent("could not be fetched");
    expect(screen.queryByText("No decision yet.")).toBeNull();
    h.api.fail = false;
    await user.click(screen.getByText("Try again"));
    expect(await screen.findByText("No decision yet.")).toBeInTheDocument();
  });

  it("a connection that was lost and came back leaves what was found", async () => {
    location.hash = "#/history";
    const h = online([]);
    h.api.closed = [past("old")];
    const { user } = mount(h);
    await user.type(await screen.findByTestId("history-q"), "old");
    await user.click(screen.getByTestId("history-search"));
    await screen.findByTestId("receipt-old");
    const before = asked(h).length;
    act(() => h.status({ status: "lost", at: Date.now() + 1000 }));
    act(() => h.status({ status: "online" }));
    expect(screen.getByTestId("receipt-old")).toBeInTheDocument();
    expect(asked(h)).toHaveLength(before);
  });

  it("a large payload is fetched when it is wanted, and again where that failed", async () => {
    location.hash = "#/history";
    const h = online([]);
    const whole = past("big");
    h.api.closed = [{ ...whole, body: undefined, tool_input: "make", cut: true }];
    const { user } = mount(h);
    const details = (await screen.findByTestId("receipt-big")).querySelector("details")!;
    expect(screen.queryByText("Fetch all that was asked")).toBeNull();
    act(() => { details.open = true; fireEvent(details, new Event("toggle")); });
    expect(await screen.findByText("This is its beginning. The whole could not be fetched.")).toBeInTheDocument();
    h.api.replies["GET /api/interactions/default.agents.big"] = whole;
    await user.click(screen.getByText("Fetch all that was asked"));
    await waitFor(() => expect(screen.getByTestId("receipt-big")).toHaveTextContent("make big"));
    expect(screen.queryByRole("alert")).toBeNull();
  });

  it.each([
    ["expired", "Expired, nobody answered", undefined],
    ["orphaned", "Ended without a decision: the agent is gone", undefined],
    ["cancelled", "Withdrawn by the agent", "the run was interrupted"],
  ] as const)("C-15 B-11: one that nobody answered (%s) shows in its own words how it ended, and all that was asked", async (outcome, words, message) => {
    location.hash = "#/history";
    const h = online([]);
    const q = ask("q", [question(), question({ id: "cache", question: "Which cache?" })]);
    const whole = { id: "q", ...closed(q, outcome, { principal: system, ...(message ? { message } : {}) }) };
    h.api.closed = [{ ...whole, body: undefined }];
    h.api.replies["GET /api/interactions/default.agents.q"] = whole;
    mount(h);
    const receipt = await screen.findByTestId("receipt-q");
    expect(receipt).toHaveTextContent(words);
    if (message) expect(receipt).toHaveTextContent(`It said: ${message}`);
    const details = receipt.querySelector("details")!;
    act(() => { details.open = true; fireEvent(details, new Event("toggle")); });
    await waitFor(() => expect(details.querySelectorAll("[data-asked]")).toHaveLength(2));
    for (const { question: text, options } of q.body!.questions!) {
      expect(details).toHaveTextContent(text);
      for (const o of options!) expect(details).toHaveTextContent(o.label);
    }
    expect(within(receipt).queryByRole("radio")).toBeNull(); // to read, not to answer
  });

  it("C-15: one that was refused as invalid says what was wrong with it", async () => {
    location.hash = "#/history";
    const h = online([]);
    h.api.closed = [{ id: "bad", ...closed(bash("bad"), "invalid", { principal: system, fields: [{ field: "questions.0.options", problem: "has no entry" }] }) }];
    mount(h);
    const receipt = await screen.findByTestId("receipt-bad");
    expect(receipt).toHaveTextContent("Never shown for a decision: the request was invalid");
    expect(within(receipt).getByTestId("faults")).toHaveTextContent("questions.0.options has no entry");
  });

  it("says that newer ones came, and moves nothing by itself", async () => {
    location.hash = "#/history";
    const a = bash("now");
    const h = online([a]);
    h.api.closed = [past("old")];
    const { user, push } = mount(h);
    await screen.findByTestId("receipt-old");
    push(processState([], { closed: [closed(a, "allowed", { decided_at: at(50) })] }));
    expect(within(screen.getByTestId("history")).queryByTestId("receipt-now")).toBeNull();
    h.api.closed = [{ id: "now", ...closed(a, "allowed") }, past("old")];
    await user.click(screen.getByText(/1 newer decision/));
    expect(await screen.findByTestId("receipt-now")).toBeInTheDocument();
  });
});

describe("the link of an alert", () => {
  const KEY = "default.agents.a";

  it("opens its request", async () => {
    location.hash = `#/i/${KEY}`;
    const a = bash("a");
    const h = online([]);
    h.api.known.set(KEY, { id: "a", state: "pending", ...a });
    mount(h);
    expect(await screen.findByTestId("card-a")).toBeInTheDocument();
  });

  it("says that it is settled already, with its receipt", async () => {
    location.hash = `#/i/${KEY}`;
    const a = bash("a");
    const h = online([]);
    h.api.known.set(KEY, { id: "a", ...closed(a, "denied", { principal: ada }) });
    mount(h);
    expect(await screen.findByText("This request is settled already")).toBeInTheDocument();
    expect(screen.getByTestId("receipt-a")).toHaveTextContent("Denied by Ada");
  });

  it("one that is settled while it is open is not called settled before", async () => {
    location.hash = `#/i/${KEY}`;
    const a = bash("a");
    const h = online([a]);
    const { push } = mount(h);
    push(processState([], { closed: [{ ...a, state: "closed", outcome: "denied", decision: decision(a, "denied", { principal: ada }) }] }));
    expect(screen.queryByText("This request is settled already")).toBeNull();
    expect(screen.getByTestId("receipt-a")).toBeInTheDocument();
  });

  it("an unknown one and one that cannot be looked up are two things", async () => {
    location.hash = `#/i/${KEY}`;
    const h = online([]);
    let answer: unknown = new GatewayError(503, "unavailable", "still loading what is open; try again");
    h.api.interaction = () => Promise.reject(answer);
    h.app.client["transport"].interaction = () => Promise.reject(answer);
    const { user } = mount(h);
    expect(await screen.findByText(/could not be looked up: still loading/)).toBeInTheDocument();
    answer = new GatewayError(404, "not_found", "no such interaction");
    await user.click(screen.getByText("Look again"));
    expect(await screen.findByText(/knows no such request/)).toBeInTheDocument();
  });

  it("is kept over a sign-in in another tab, and no longer than that", () => {
    location.hash = `#/i/${KEY}`;
    const h = harness();
    h.status({ status: "signed_out" });
    mount(h);
    const kept = JSON.parse(localStorage.getItem("banksman.after")!) as { hash: string };
    expect(kept.hash).toBe(`#/i/${KEY}`);
  });

  it("says when there is no connection", () => {
    location.hash = `#/i/${KEY}`;
    const h = online([]);
    act(() => h.status({ status: "lost", at: Date.now() + 1000 }));
    mount(h);
    expect(screen.getByText(/looked up when it is back/)).toBeInTheDocument();
  });
});
