import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { at } from "../../packages/client/src/testing/fixtures";
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

  it.each([
    ["by what, and when it last worked", [{ type: "mail", addresses: 2, failing: 0, gone: 0, last_success: at(-60) }, { type: "slack", addresses: 1, failing: 0, gone: 0 }], /alerts people by mail \(last sent [^)]*\d\d:\d\d\), slack \(nothing sent since it started\)\./],
    ["what does not work", [{ type: "mail", addresses: 3, failing: 1, gone: 1, last_success: at(-60) }, { type: "push", addresses: 1, failing: 1, gone: 0 }], /mail \(2 of 3 do not work now, last sent [^)]*\d\d:\d\d\), push \(does not work now, nothing sent since it started\)/],
    ["a log alone alerts nobody", [{ type: "log", addresses: 1, failing: 0, gone: 0 }], /log only: nobody is alerted/],
  ])("the empty inbox says by what people are alerted: %s", async (_, channels, words) => {
    const h = online();
    h.api.replies["GET /api/services"] = { runtimes: ["claude"], notifier: "listening", channels };
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
