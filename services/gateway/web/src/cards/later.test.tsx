import { act, fireEvent, screen, within } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ask, bash, form, question } from "@banksman/client/testing";

// The code of these cards comes when it is wanted. Here it comes when the test says so.
let come: () => void;

async function slow(...modules: string[]) {
  vi.resetModules();
  const gate = new Promise<void>((resolve) => (come = resolve));
  for (const m of modules) vi.doMock(m, async (original) => {
    await gate;
    return await original();
  });
  const [{ mount }, { online }] = await Promise.all([import("../testing/mount"), import("../testing/harness")]);
  return { mount, online };
}

afterEach(() => {
  for (const m of ["./QuestionCard", "./FormCard", "../inbox/Batch"]) vi.doUnmock(m);
  vi.resetModules();
  vi.useRealTimers();
});

const KEYS = ["y", "n", "r", "e", "1", "2", "Enter"];

describe("before the code of a card is there", () => {
  it.each([
    ["question", "./QuestionCard", ask("a", [question({ required: true })])],
    ["form", "./FormCard", form("a")],
  ] as const)("D1-39 B-60: a %s says that it loads, and nothing can be decided, by no button and no key; then it can be read and answered", async (_kind, module, asked) => {
    const { mount, online } = await slow(module);
    vi.useFakeTimers({ toFake: ["performance"] });
    const h = online([asked]);
    mount(h);
    const card = screen.getByTestId("card-a");
    expect(within(card).getByRole("heading")).toHaveTextContent(asked.headline);
    expect(within(card).getByText("Loading…")).toHaveRole("status");
    expect(within(card).queryByRole("button", { name: /Approve|Deny|Submit|Dismiss|Answer in words/ })).toBeNull();
    act(() => card.focus());
    vi.advanceTimersByTime(5_000);
    for (const key of KEYS) fireEvent.keyDown(card, { key });
    fireEvent.keyDown(card, { key: "Enter", ctrlKey: true });
    expect(h.answers()).toEqual([]);
    vi.useRealTimers();
    await act(async () => come());
    expect(await within(card).findByTestId("submit")).toBeDisabled(); // nothing is answered yet
    expect(within(card).queryByText("Loading…")).toBeNull();
  });

  it("the sheet for many says that it loads, and decides nothing before it lists them", async () => {
    localStorage.setItem("banksman.set.inbox", "rows");
    const { mount, online } = await slow("../inbox/Batch");
    const h = online([bash("a"), bash("b")]);
    const { user } = mount(h);
    for (const id of ["a", "b"]) await user.click(within(screen.getByTestId(`row-${id}`)).getByRole("checkbox"));
    await user.click(screen.getByTestId("batch-open"));
    expect(await screen.findByTestId("batch-loading")).toHaveRole("status");
    expect(screen.queryByTestId("batch-approve")).toBeNull();
    expect(h.answers()).toEqual([]);
    await act(async () => come());
    expect(await screen.findByTestId("batch-approve")).toBeInTheDocument();
    expect(screen.queryByTestId("batch-loading")).toBeNull();
  });
});
