import { act, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { ask, bash, closed, decision, features, form, formFields, processState, question, system } from "@banksman/client/testing";
import { online } from "../testing/harness";
import { mount } from "../testing/mount";
import { pick, pickOther } from "./QuestionCard";

const card = (id: string) => screen.getByTestId(`card-${id}`);
const el = (name: string) => screen.getByTestId<HTMLInputElement>(name);

describe("question card", () => {
  it.each([["question", ask("q")], ["form", form("q", { body: { verbs: ["answer", "clarify"], scopes: [], schema: "{}", fields: formFields } })]])("the focus goes along with words in place of an answer, and comes back by Esc and by the button: %s", async (_kind, asked) => {
    const { user } = mount(online([asked]));
    for (const back of [() => user.keyboard("{Escape}"), () => user.click(screen.getByText(/^Back to the (question|form)$/))]) {
      await user.click(el("clarify"));
      await waitFor(() => expect(el("clarify-text")).toHaveFocus());
      await back();
      await waitFor(() => expect(el("clarify")).toHaveFocus());
    }
  });

  it("D1-40: an own answer that was typed and not chosen is not lost with the one that was", async () => {
    const h = online([ask("q")]);
    const { user, push } = mount(h);
    await user.type(el("q-db-other"), "MariaDB");
    await user.click(el("q-db-opt-0"));
    await user.click(el("submit"));
    push({ type: "receipt", ref: h.answers()[0]!.ref!, status: "accepted" });
    expect(screen.getByTestId("unsent").textContent).toBe("MariaDB");
  });

  it.each([["question", ask("q")], ["form", form("q", { body: { verbs: ["answer", "clarify"], scopes: [], schema: "{}", fields: formFields } })]])("D1-40: words in place of an answer are kept when the field is closed over them: %s", async (_kind, asked) => {
    const h = online([asked]);
    const first = mount(h);
    expect(el("clarify")).toHaveTextContent("Answer in words instead");
    await first.user.click(el("clarify"));
    await first.user.type(el("clarify-text"), "which of them?");
    await first.user.click(screen.getByText(/^Back to the (question|form)$/));
    expect(screen.queryByTestId("clarify-text")).toBeNull();
    first.unmount();
    const again = mount(h);
    expect(screen.queryByTestId("clarify-text")).toBeNull();
    expect(el("clarify")).toHaveTextContent("Your words, not sent");
    await again.user.click(el("clarify"));
    expect(el("clarify-text").value).toBe("which of them?");
  });

  it("D1-40: JSON that somebody wrote in place of a form's fields is still there after a look at the fields, and what the fields say is there as well", async () => {
    const h = online([form("f", { body: { verbs: ["answer"], scopes: [], schema: "{}", fields: formFields } })]);
    const { user } = mount(h);
    await user.type(el("field-port"), "7");
    await user.click(screen.getByText("Write it as JSON instead"));
    const mine = '{"port": 8, "x": 1}';
    fireEvent.change(el("form-text"), { target: { value: mine } });
    await user.click(screen.getByText("Back to the fields"));
    expect(el("field-port").value).toBe("7");
    await user.type(el("field-port"), "1");
    await user.click(screen.getByText("Back to the JSON that you wrote"));
    expect(el("form-text").value).toBe(mine);
    await user.click(screen.getByText("Put in what they say"));
    expect(el("form-text").value).toBe('{\n  "port": 71\n}');
    // JSON that nobody wrote follows the fields.
    await user.click(screen.getByText("Back to the fields"));
    await user.type(el("field-port"), "2");
    await user.click(screen.getByText("Write it as JSON instead"));
    expect(el("form-text").value).toBe('{\n  "port": 712\n}');
  });

  it("D0-32 D1-37: header chip, text, native radios or checkboxes, labels and descriptions in a fieldset with legend", () => {
    mount(online([ask("q", [question(), features])]));
    const sets = within(card("q")).getAllByRole("group").filter((g) => g.tagName === "FIELDSET");
    expect(sets.map((s) => s.querySelector("legend")?.textContent)).toEqual([expect.stringContaining("DatabaseWhich database"), expect.stringContaining("What belongs into the first release?")]);
    expect(el("q-db-opt-0").type).toBe("radio");
    expect(el("q-feat-opt-0").type).toBe("checkbox");
    expect(card("q")).toHaveTextContent("Relational, the platform team runs it already");
    expect(card("q")).toHaveTextContent("0 of 2 answered");
  });

  it("a preview is shown with its option", () => {
    mount(online([ask("q", [question({ options: [{ value: "a", label: "A", preview: "line 1\nline 2" }] })])]));
    expect(screen.getByLabelText("Preview of A").textContent).toBe("line 1\nline 2");
  });

  it("B-13 D0-34 D1-39: nothing is preselected, and Submit opens when every required question has an answer", async () => {
    const h = online([ask("q", [question(), features, question({ id: "note", options: [], required: false })])]);
    const { user } = mount(h);
    expect([...card("q").querySelectorAll("input:checked")]).toEqual([]);
    expect(el("submit")).toBeDisabled();
    await user.click(el("q-db-opt-1"));
    expect(el("submit")).toBeDisabled();
    expect(card("q")).toHaveTextContent("1 answer missing");
    await user.click(el("q-feat-opt-2"));
    await user.click(el("q-feat-opt-0"));
    await user.click(el("submit"));
    expect(h.answers()).toEqual([expect.objectContaining({
      request_type: "ask_user_question",
      answers: [{ question_id: "db", values: ["lite"] }, { question_id: "feat", values: ["login", "audit"] }],
    })]);
  });

  it("D0-33 D1-38: one's own answer is a choice beside the options, and excludes them where one is wanted", async () => {
    const h = online([ask("q")]);
    const { user } = mount(h);
    await user.click(el("q-db-opt-0"));
    await user.type(el("q-db-other"), "MariaDB, 11");
    expect(el("q-db-other-toggle").checked).toBe(true);
    expect(el("q-db-opt-0").checked).toBe(false);
    await user.click(el("q-db-opt-2"));
    expect(el("q-db-other").value).toBe("MariaDB, 11"); // kept, not sent
    expect(el("q-db-other-toggle").checked).toBe(false);
    await user.click(el("q-db-other-toggle"));
    await user.click(el("submit"));
    expect(h.answers()[0]!.answers).toEqual([{ question_id: "db", values: [], other: "MariaDB, 11" }]);
  });

  it("B-10: several options and free text all arrive", async () => {
    const h = online([ask("q", [features])]);
    const { user } = mount(h);
    await user.click(el("q-feat-opt-0"));
    await user.click(el("q-feat-opt-1"));
    await user.type(el("q-feat-other"), "x, y");
    await user.click(el("submit"));
    expect(h.answers()[0]!.answers).toEqual([{ question_id: "feat", values: ["login", "bill"], other: "x, y" }]);
  });

  it("free text that may not be mixed clears the options of a multiple choice", () => {
    const q = { ...features, free_text_exclusive: true };
    const chosen = pick(q, { values: [], useOther: false, other: "" }, "login", true);
    expect(pickOther(q, chosen, true, "z")).toEqual({ values: [], useOther: true, other: "z" });
    expect(pick(q, { values: [], useOther: true, other: "z" }, "bill", true)).toEqual({ values: ["bill"], useOther: false, other: "z" });
    expect(pickOther(features, chosen, true, "z").values).toEqual(["login"]);
  });

  it("free text is not offered where the server would refuse it; words instead always are", () => {
    mount(online([ask("q", [question({ allow_other: false })])]));
    expect(screen.queryByTestId("q-db-other")).toBeNull();
    expect(el("clarify")).toBeEnabled();
  });

  it("clarify hands text back without an answer", async () => {
    const h = online([ask("q")]);
    const { user } = mount(h);
    await user.click(el("clarify"));
    expect(el("clarify-send")).toBeDisabled();
    await user.type(el("clarify-text"), "what is it for?");
    await user.click(el("clarify-send"));
    expect(h.answers()[0]).toMatchObject({ action: "clarify", message: "what is it for?" });
    expect(h.answers()[0]).not.toHaveProperty("answers");
  });

  it("B-12: dismiss is no answer", async () => {
    const h = online([ask("q")]);
    const { user } = mount(h);
    await user.click(el("q-db-opt-0"));
    await user.click(el("dismiss"));
    expect(h.answers()[0]).toMatchObject({ action: "dismiss" });
    expect(h.answers()[0]).not.toHaveProperty("answers");
  });

  it("D0-31 D0-35 D0-36 D4-20: pending, sending with inputs off, then a summary with the chosen options marked among all", async () => {
    const q = ask("q", [question(), features]);
    const h = online([q]);
    const { user, push } = mount(h);
    expect(card("q")).toHaveAttribute("data-state", "pending");
    await user.click(el("q-db-opt-0"));
    await user.click(el("q-feat-opt-0"));
    await user.click(el("submit"));
    expect(card("q")).toHaveAttribute("data-state", "sending");
    expect(el("q-db-opt-0")).toBeDisabled();
    expect(el("submit")).toHaveAttribute("aria-busy", "true");
    push({ type: "receipt", ref: h.answers()[0]!.ref, status: "accepted", decision: decision(q, "answered", { answers: [{ question_id: "db", values: ["pg"] }, { question_id: "feat", values: ["login"], other: "and SSO" }] }) });
    const r = screen.getByTestId("receipt-q");
    expect(r).toHaveTextContent("Answered by you");
    expect(within(r).getAllByRole("listitem")).toHaveLength(2);
    expect([...r.querySelectorAll('[data-chosen="true"]')].map((x) => x.textContent)).toEqual(["Postgres", "Login"]);
    expect([...r.querySelectorAll('[data-chosen="false"]')].map((x) => x.textContent)).toEqual(["SQLite", "DynamoDB", "Billing", "Audit log"]);
    expect(r).toHaveTextContent("and SSO");
    expect(h.app.drafts.load(q.key)).toEqual({});
  });

  it("D0-37: after a refusal the selections are still there and a retry works", async () => {
    const h = online([ask("q")]);
    const { user, push } = mount(h);
    await user.click(el("q-db-opt-1"));
    await user.click(el("submit"));
    push({ type: "receipt", ref: h.answers()[0]!.ref, status: "invalid", error: "no", fields: [{ field: "answers.db", problem: "is not one of its options" }] });
    expect(el("q-db-opt-1").checked).toBe(true);
    expect(card("q")).toHaveTextContent("answers.db is not one of its options");
    await user.click(el("submit"));
    expect(h.answers()).toHaveLength(2);
  });

  it("D4-12: a question without options takes free text alone", async () => {
    const h = online([ask("q", [question({ options: null })])]);
    const { user } = mount(h);
    expect(screen.queryByTestId("q-db-other-toggle")).toBeNull();
    await user.type(el("q-db-other"), "anything");
    await user.click(el("submit"));
    expect(h.answers()[0]!.answers).toEqual([{ question_id: "db", values: [], other: "anything" }]);
  });

  it("D4-13: choosing never submits by itself", async () => {
    const h = online([ask("q")]);
    const { user } = mount(h);
    await user.dblClick(el("q-db-opt-0"));
    expect(h.answers()).toEqual([]);
  });
});

describe("drafts", () => {
  it("B-25 D1-40: each interaction has its own draft, and another one's never shows", async () => {
    const h = online([ask("one")]);
    const { user, push } = mount(h);
    await user.type(el("q-db-other"), "half an ans");
    push(processState([ask("two")], { closed: [closed(ask("one"), "cancelled", { principal: system })] }));
    expect(within(card("two")).getByTestId<HTMLTextAreaElement>("q-db-other").value).toBe("");
  });

  it("B-25: a draft survives a reload", async () => {
    const { user, unmount } = mount(online([ask("one")]));
    await user.type(el("q-db-other"), "half an ans");
    unmount();
    mount(online([ask("one")]));
    expect(el("q-db-other").value).toBe("half an ans");
    expect(el("q-db-other-toggle").checked).toBe(true);
  });

  it("B-17: what was typed when it expired is still there to copy, and is not sent", async () => {
    const q = ask("q");
    const h = online([q]);
    const { user, push } = mount(h);
    await user.type(el("q-db-other"), "MariaDB because of ops");
    push(processState([], { closed: [closed(q, "expired", { principal: system })] }));
    expect(card("q")).toHaveAttribute("data-state", "expired");
    expect(screen.getByTestId("unsent")).toHaveTextContent("MariaDB because of ops");
    expect(h.answers()).toEqual([]);
    await user.click(screen.getByText("Discard it"));
    expect(h.app.drafts.load(q.key)).toEqual({});
  });

  it("B-17: submitting at the last moment gets an expired receipt and keeps the text", async () => {
    const q = ask("q");
    const h = online([q]);
    const { user, push } = mount(h);
    await user.type(el("q-db-other"), "too late");
    await user.click(el("submit"));
    push({ type: "receipt", ref: h.answers()[0]!.ref, status: "expired", decision: decision(q, "expired", { principal: system }) });
    expect(screen.getByTestId("receipt-q")).toHaveTextContent("Expired, nobody answered");
    expect(screen.getByTestId("unsent")).toHaveTextContent("too late");
  });
});

describe("form card", () => {
  it("shows its schema with numbers verbatim and sends the typed text as it stands", async () => {
    const h = online([form("f")]);
    mount(h);
    expect(card("f")).toHaveTextContent("9007199254740993");
    expect(el("submit")).toBeDisabled();
    const text = '{"port": 9007199254740993, "x": 1.0}';
    fireEvent.change(el("form-text"), { target: { value: text } });
    act(() => el("submit").click());
    expect(h.answers()[0]).toMatchObject({ request_type: "form", content: text });
  });

  it("shows the server's problems by field and keeps the text", async () => {
    const h = online([form("f")]);
    const { push } = mount(h);
    fireEvent.change(el("form-text"), { target: { value: "{}" } });
    act(() => el("submit").click());
    push({ type: "receipt", ref: h.answers()[0]!.ref, status: "invalid", fields: [{ field: "content.port", problem: "is missing" }] });
    expect(card("f")).toHaveTextContent("content.port is missing");
    expect(el("form-text").value).toBe("{}");
  });
});

describe("approval beside questions", () => {
  it("a digit in an approval chooses nothing", async () => {
    const h = online([bash("a")]);
    const { user } = mount(h);
    act(() => card("a").focus());
    await user.keyboard("1");
    expect(h.answers()).toEqual([]);
  });
});
