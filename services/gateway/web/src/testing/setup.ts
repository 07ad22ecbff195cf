import "@testing-library/jest-dom/vitest";
import { cleanup, configure } from "@testing-library/react";
import { afterEach, beforeAll, beforeEach } from "vitest";
import { preload } from "../ui/screens";

configure({ asyncUtilTimeout: 20_000 }); // on a busy machine
beforeAll(() => preload());

beforeEach(() => {
  localStorage.clear();
  history.replaceState(null, "", "/");
});
afterEach(cleanup);
