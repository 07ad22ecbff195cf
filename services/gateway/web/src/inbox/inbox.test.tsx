import { act, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ada, ask, at, bash, closed, hello, me, processState, session } from "@banksman/client/testing";
import { harness, online } from "../testing/harness";
import { mount } from "../testing/mount";
import { renderers } from "../cards/Card";
import { CardsContext } from "../ui/context";
import { SOON } from "../ui/soon";
import { Inbox } from "./Inbox";

afterEach(() => vi.useRealTimers());

const KEY = "default.agents.s1";

describe("inbox", () => {
  it("says nothing about what waits before the whole snapshot is here", () => {
    const h = harness();
    h.status({ status: "online" });
    const { push } = mount(h);
    push(hello(), { type: "active_processes", cursor: "c", sessions: [], more: true });
    expect(screen.getByTestId("inbox")).toHaveTextContent("Asking the server what waits");
    expect(screen.queryByText("Nothing waits for you")).toBeNull();
    push({ type: "active_processes", cursor: "c", sessions: [], more: false });
    expect(screen.getByText("Nothing waits for you")).toBeInTheDocument();
  });

  it("in another page its heading is one below that page's own", () => {
    const h = online([bash("a")]);
    const view = render(<CardsContext value={{ ...h.app, embedded: true }}><Inbox empty={<p>none</p>} /></CardsContext>);
    expect(screen.queryByRole("heading", { level: 1 })).toBeNull();
    expect(screen.getByRole("heading", { level: 2, name: "1 request waits for you" })).toBeInTheDocument();
    view.unmount();
    mount(h);
    expect(screen.getByRole("heading", { level: 1, name: "1 request waits for you" })).toBeInTheDocument();
  });

  it("shows all that waits in all sessions, newest last, and the count in title and icon", async () => {
    document.head.innerHTML = '<link rel="icon" href="/favicon.svg">';
    const h = online([bash("b", "ls", { created_at: at(2) }), bash("a", "ls", { created_at: at(1) })]);
    const { push } = mount(h);
    push(processState([ask("c", undefined, { created_at: at(3), session_key: "x", key: "x.c" })], { session_key: "x", session_id: "x" }));
    expect(screen.getAllByRole("article").map((c) => c.dataset.testid)).toEqual(["card-a", "card-b", "card-c"]);
    await waitFor(() => expect(document.title).toBe("(3) Banksman"));
    expect(document.querySelector('link[rel="icon"]')).toHaveAttribute("href", "/favicon-dot.svg");
    push(processState([]), processState([], { session_key: "x", session_id: "x" }));
    await waitFor(() => expect(document.title).toBe("Banksman"));
    expect(document.querySelector('link[rel="icon"]')).toHaveAttribute("href", "/favicon.svg");
  });

  it("a card is drawn before title and icon, and where nobody sees the page these do not wait", () => {
    vi.useFakeTimers();
    document.title = "Banksman";
    const h = online([]);
    const { push } = mount(h);
    push(processState([bash("a")]));
    expect(screen.getByTestId("card-a")).toBeInTheDocument();
    expect(document.title).toBe("Banksman");
    act(() => void vi.advanceTimersByTime(SOON));
    expect(document.title).toBe("(1) Banksman");
    const seen = vi.spyOn(document, "visibilityState", "get").mockReturnValue("hidden");
    push(processState([bash("a"), bash("b")]));
    expect(document.title).toBe("(2) Banksman");
    seen.mockRestore();
  });

  it("a new request draws no card anew but its own", () => {
    const drawn: string[] = [];
    renderers.probe = ({ item }) => {
      drawn.push(item.summary.request_id);
      return <p>drawn</p>;
    };
    const a = ask("a", undefined, { kind: "probe", created_at: at(1) });
    const b = ask("b", undefined, { kind: "probe", created_at: at(2) });
    const h = online([a]);
    const { push } = mount(h);
    drawn.length = 0;
    try {
      push(processState([b], { session_key: "x", session_id: "x" }));
      expect(screen.getAllByText("drawn")).toHaveLength(2);
      expect(drawn).toContain("b");
      expect(drawn).not.toContain("a");
    } finally {
      delete renderers.probe;
    }
  });

  it("a decided card stays in its place as a receipt until cleared", async () => {
    const a = bash("a", "ls", { created_at: at(1) });
    const b = bash("b", "ls", { created_at: at(2) });
    const h = online([a, b]);
    const { user, push } = mount(h);
    push(processState([b], { closed: [closed(a, "allowed", { principal: ada })] }));
    expect(screen.getAllByRole("article").map((c) => c.dataset.testid)).toEqual(["card-a", "card-b"]);
    expect(screen.getByTestId("receipt-a")).toHaveTextContent("Approved once by Ada");
    await user.click(screen.getByText("Clear receipts"));
    expect(screen.getAllByRole("article").map((c) => c.dataset.testid)).toEqual(["card-b"]);
  });

  it("an ending that was missed is looked up and then told", async () => {
    const a = bash("a");
    const h = online([a]);
    const { push } = mount(h);
    h.api.known.set(a.key, { id: "a", ...closed(a, "denied", { principal: ada }) });
    push(hello(), { type: "active_processes", cursor: "c2", sessions: [session([])], more: false });
    expect(await screen.findByText(/Denied by Ada/)).toBeInTheDocument();
  });

  it("the empty state has the last decisions, a demo and the command; a list that cannot be fetched looks different", async () => {
    const h = online([]);
    h.api.closed = [{ id: "old", ...closed(bash("old"), "allowed") }];
    const { user, push } = mount(h);
    expect(await screen.findByTestId("receipt-old")).toBeInTheDocument();
    expect(screen.getByText(/^banksman ask --tool/)).toBeInTheDocument();
    expect(screen.getByText(/with the credential of an asker/)).toBeInTheDocument();
    push(hello({ ask_command: "go run -C /srv/banksman ./cmd/banksman ask --data /srv/data" }), { type: "active_processes", cursor: "c1", sessions: [], more: false });
    expect(screen.getByText(/^go run -C \/srv\/banksman .\/cmd\/banksman ask --data \/srv\/data --tool Bash/)).toBeInTheDocument();
    expect(screen.queryByText(/with the credential of an asker/)).toBeNull();
    expect(screen.getByTestId("workers")).toHaveTextContent("Claude Code, Demo (no model)");
    await user.click(screen.getByTestId("demo"));
    expect(location.hash).toBe("#/s/default.agents.demo");
  });

  it("a demo that begins late does not take anybody away from where they are by then", async () => {
    const h = online([]);
    let come: (r: { session_id: string }) => void = () => undefined;
    h.api.demo = () => new Promise((resolve) => (come = resolve));
    const { user } = mount(h);
    await user.click(screen.getByTestId("demo"));
    location.hash = "#/new";
    await screen.findByTestId("start-prompt");
    await act(async () => come({ session_id: "default.agents.demo" }));
    expect(location.hash).toBe("#/new");
  });

  it("a failed load says so and offers another try", async () => {
    const h = online([]);
    h.api.fail = true;
    mount(h);
    expect(await screen.findByText(/could not be fetched/)).toBeInTheDocument();
  });
});

describe("announcements", () => {
  it("B-77: the live region stands outside the cards and outlives them", () => {
    const a = bash("a");
    const h = online([]);
    const { push } = mount(h);
    const region = screen.getByTestId("live-region");
    push(processState([a]));
    expect(region).toHaveTextContent("New request: build-7 wants to run a shell command.");
    push(processState([], { closed: [closed(a, "denied", { principal: ada })] }));
    expect(screen.getByTestId("live-region")).toBe(region);
    expect(region).toHaveTextContent("build-7 wants to run a shell command: denied.");
    expect(region.closest("article")).toBeNull();
  });

  it("B-77: what is said at the same time is all said, and stands until it was heard", () => {
    vi.useFakeTimers();
    const a = bash("a");
    const b = bash("b", "ls", { headline: "build-7 wants more" });
    const h = online([a]);
    const { push } = mount(h);
    const said = () => [...screen.getByTestId("live-region").children].map((p) => p.textContent);
    act(() => void vi.advanceTimersByTime(1000));
    // One ends and another comes, in the same frame; and a terminal asks, in the same batch.
    push(
      processState([b], { closed: [closed(a, "expired")] }),
      { type: "cli_login", code: "c", name: "laptop", requested_at: at(0), expires_at: at(600) },
    );
    const first = ["build-7 wants to run a shell command: expired, nobody answered.", "New request: build-7 wants more.", "A terminal asks to sign in as you."];
    expect(said()).toEqual(first);
    act(() => void vi.advanceTimersByTime(500));
    push(processState([], { closed: [closed(b, "denied")] }));
    expect(said()).toEqual([...first, "build-7 wants more: denied."]);
    act(() => void vi.advanceTimersByTime(1000));
    expect(said()).toEqual(["build-7 wants more: denied."]);
  });

  it("B-77: under a dialog what is new is said inside of it, and nothing that was said before", async () => {
    const { push } = mount(online([bash("old")]));
    push(processState([bash("old"), bash("seen")]));
    fireEvent.keyDown(document.body, { key: "?" });
    const region = await screen.findByTestId("live-region-inside", {}, { timeout: 10_000 });
    expect(region.closest("dialog")).toHaveAttribute("aria-label", "Keys");
    expect(region).toHaveAttribute("aria-live", "polite");
    expect(region).toBeEmptyDOMElement();
    push(processState([bash("old"), bash("seen"), bash("new")]));
    expect(region).toHaveTextContent("New request: build-7 wants to run a shell command.");
  });

  it("the time left is spoken at 5 min, 1 min and 20 s only", () => {
    vi.useFakeTimers();
    const h = online([bash("a", "ls", { expires_at: new Date(Date.now() + 360_000).toISOString() })]);
    mount(h);
    const heard: string[] = [];
    for (let s = 0; s < 360; s++) {
      const before = h.app.store.get().spoken.at(-1)!.n;
      act(() => vi.advanceTimersByTime(1000));
      const said = h.app.store.get().spoken.at(-1)!;
      if (said.n > before) heard.push(said.text.split(" left")[0]!);
    }
    expect(heard).toEqual(["5 min", "1 min", "20 seconds"]);
  });
});

describe("signing in", () => {
  it("without a token the page says how to get one", () => {
    const h = harness();
    h.status({ status: "signed_out" });
    mount(h);
    expect(screen.getByTestId("login-needed")).toHaveTextContent("banksman login");
    expect(screen.queryByTestId("inbox")).toBeNull();
  });

  it("a terminal's sign-in shows its code, takes no focus and is answered by hand", async () => {
    const h = online([]);
    const { user, push } = mount(h);
    const focus = document.activeElement;
    push({ type: "cli_login", code: "KX4F-92QD", name: "sam@box", requested_at: "2026-11-28T00:00:00Z", expires_at: "2026-11-28T00:10:00Z" });
    expect(document.activeElement).toBe(focus);
    expect(screen.getByTestId("cli-login")).toHaveTextContent("KX4F-92QD");
    expect(screen.getByTestId("cli-login")).toHaveTextContent("sam@box");
    expect(h.api.calls.filter((c) => c.startsWith("cli"))).toEqual([]);
    await user.click(screen.getByTestId("cli-login-allow"));
    expect(h.api.calls).toContain("cli KX4F-92QD true");
    expect(screen.queryByTestId("cli-login")).toBeNull();
  });

  it("a sign-in that was settled elsewhere goes away", async () => {
    const h = online([]);
    const { push } = mount(h);
    push({ type: "cli_login", code: "KX4F-92QD", name: "sam@box", requested_at: "2026-11-28T00:00:00Z", expires_at: "2026-11-28T00:10:00Z" }, { type: "cli_login", code: "ZZZZ-1111", name: "x", requested_at: "2026-11-28T00:00:00Z", expires_at: "2026-11-28T00:10:00Z" }, { type: "cli_login_settled", code: "KX4F-92QD" });
    expect(screen.getByTestId("cli-login")).toHaveTextContent("ZZZZ-1111");
    push({ type: "cli_login_settled", code: "ZZZZ-1111" });
    expect(screen.queryByTestId("cli-login")).toBeNull();
  });

  it("who signed in is named: you, or the person whom you hear of because you manage people", async () => {
    const h = online([]);
    const { user, push } = mount(h);
    const told = (principal: typeof ada, name: string, via: string) => push({ type: "signed_in", principal, name, via, at: at(0) });
    const shows = (text: string) => expect(screen.getByText(/^New sign-in as/)).toHaveTextContent(text);
    told(me, me.name, "passkey");
    shows(`New sign-in as you: ${me.name}, passkey.`);
    told(ada, "laptop", "cli");
    shows("New sign-in as Ada: laptop, cli.");
    told(ada, "Ada", "link");
    shows("New sign-in as Ada: link.");
    told({ kind: "person", id: "eve", name: "" }, "", "link");
    shows("New sign-in as eve: link.");
    await user.click(screen.getByRole("button", { name: "Got it" }));
    expect(screen.queryByText(/^New sign-in as/)).toBeNull();
  });

  it("sign-ins that already wait are shown after hello", async () => {
    const h = online([]);
    h.api.codes = [{ code: "AAAA-BBBB", name: "n", requested_at: at(0) }];
    const { push } = mount(h);
    push(hello({ recovered: true }));
    expect(await screen.findByTestId("cli-login")).toHaveTextContent("AAAA-BBBB");
  });
});

describe("one copy", () => {
  it("B-14: in the session's view the request stands once, interactive, and not in the transcript too", () => {
    location.hash = `#/s/${KEY}`;
    const a = bash("a");
    const h = online([a]);
    const { push } = mount(h);
    push({ type: "event", session_id: "s1", session_key: KEY, cursor: "e", events: [
      { type: "interaction_request", at: at(0), data: { ...a, interaction_id: "a" } },
      { type: "approval_required", at: at(0), data: { interaction_id: "a", tool_name: "Bash", input: "x" } },
    ] });
    expect(screen.getAllByTestId("card-a")).toHaveLength(1);
    expect(screen.getAllByTestId("approve")).toHaveLength(1);
    expect(within(screen.getByTestId("transcript")).queryByTestId("approve")).toBeNull();
    expect(screen.getByTestId("transcript")).toHaveTextContent("Waiting for you");
  });
});
