import { act, render } from "@testing-library/react";
import userEvent, { PointerEventsCheckLevel } from "@testing-library/user-event";
import type { InFrame } from "@banksman/client";
import { Root } from "../ui/Root";
import type { Harness } from "./harness";

/** Draws the whole app over a harness. */
export function mount(h: Harness) {
  const user = userEvent.setup({ delay: null, pointerEventsCheck: PointerEventsCheckLevel.Never });
  const view = render(<Root app={h.app} loginProblem="" />);
  return {
    ...view,
    user,
    push: (...frames: InFrame[]) => act(() => h.push(...frames)),
  };
}
