import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { online } from "../testing/harness";
import { mount } from "../testing/mount";

describe("shell", () => {
  it("the bar of a phone leads to every screen that the side of a desktop has", () => {
    mount(online());
    const [side, bar] = screen.getAllByRole("navigation", { name: "Main" });
    const places = (nav: HTMLElement) => within(nav).getAllByRole("link").map((a) => a.getAttribute("href"));
    expect(places(bar!)).toEqual(["#/", "#/sessions", "#/history", "#/rules", "#/settings"]);
    for (const place of places(side!)) expect(places(bar!)).toContain(place);
  });

  it.each([
    ["listening", /notifier is listening/],
    ["silent", /nobody is alerted who does not look/],
    ["unknown", /cannot be told/],
    ["something newer", /cannot be told/],
  ])("the empty inbox says whether anybody would be alerted: %s", async (notifier, words) => {
    const h = online();
    h.api.replies["GET /api/services"] = { runtimes: ["claude", "demo"], notifier };
    mount(h);
    expect(await screen.findByTestId("alerts")).toHaveTextContent(words);
  });

  it("the empty inbox claims nothing about alerts where the server does not say it", async () => {
    const h = online();
    mount(h);
    expect(await screen.findByTestId("workers")).toBeInTheDocument();
    expect(screen.queryByTestId("alerts")).toBeNull();
  });

  it("amber has one meaning: time is short", () => {
    const found: string[] = [];
    const look = (dir: string) => {
      for (const e of readdirSync(dir, { withFileTypes: true })) {
        const path = join(dir, e.name);
        if (e.isDirectory()) look(path);
        else if (/\.tsx?$/.test(e.name) && !/\.test\./.test(e.name)) {
          for (const line of readFileSync(path, "utf8").split("\n")) if (/\bamber\b|-amber/.test(line) && !/soon|left/.test(line)) found.push(`${path}: ${line.trim()}`);
        }
      }
    };
    look(join(import.meta.dirname, ".."));
    look(join(import.meta.dirname, "../../packages/elements/src"));
    expect(found).toEqual([]);
  });
});
