import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { GatewayError } from "@banksman/client";
import { bash } from "@banksman/client/testing";
import { online } from "../testing/harness";
import { mount } from "../testing/mount";

const a = bash("a");
const PATH = `GET /api/interactions/${a.key}/alerts`;
const at = (s: number) => new Date(Date.now() + s * 1000).toISOString();

function open(reply: unknown) {
  location.hash = `#/i/${a.key}`;
  const h = online([a]);
  if (reply instanceof Error) h.api.call = () => Promise.reject(reply);
  else h.api.replies[PATH] = reply;
  return { h, ...mount(h) };
}

async function told(reply: unknown) {
  const { user } = open(reply);
  await user.click(await screen.findByTestId("told-open"));
  return screen.findByTestId("told");
}

describe("who was told", () => {
  it("says who was told when and by what, what the provider said, why somebody was not, and what comes next", async () => {
    const { h, user } = open({
      key: a.key, notifier: "answered", planned_at: at(-60), claim: { by: "Grace", until: at(600) },
      deliveries: [
        { step: "step1", address: "ada/slack", channel_type: "slack", state: "sent", due_at: at(-55), sent_at: at(-54), tries: 1, said: "ok 1764.2" },
        { step: "step1", address: "grace/mail", channel_type: "mail", state: "dead", due_at: at(-55), tries: 6, problem: "550 no such mailbox" },
        { step: "step1", address: "log", state: "skipped", due_at: at(-55), tries: 0, held: "quiet hours" },
        { step: "step2", address: "oncall/pager", state: "planned", due_at: at(240), tries: 0 },
      ],
    });
    expect(h.api.calls).not.toContain(PATH); // nobody asked yet
    await user.click(await screen.findByTestId("told-open"));
    const box = await screen.findByTestId("told");
    const list = within(await within(box).findByRole("list")).getAllByRole("listitem").map((l) => l.textContent);
    expect(list).toEqual([
      expect.stringMatching(/^ada by slacktold(?:\w{3} \d+, )?\d\d:\d\dstep 1The provider said: “ok 1764\.2”\.$/),
      expect.stringMatching(/^grace by mailgiven upstep 1550 no such mailbox\.6 tries\.$/),
      expect.stringMatching(/^lognot toldstep 1Put off: quiet hours\.$/),
      expect.stringMatching(/^oncall by pagercomesat (?:\w{3} \d+, )?\d\d:\d\d, in 4 minstep 2$/),
    ]);
    expect(box).toHaveTextContent(/Next: oncall by pager, at (?:\w{3} \d+, )?\d\d:\d\d, in 4 min\./);
    expect(box).toHaveTextContent(/Grace looks after it until/);
  });

  it.each([
    ["no notifier", { key: a.key, notifier: "silent", deliveries: [] }, /No notifier answered, so nothing is known/],
    ["nobody to tell", { key: a.key, notifier: "answered", deliveries: null }, /nobody is told elsewhere/],
    ["no route", { key: a.key, notifier: "answered", route: "none", planned_at: at(-1), deliveries: [] }, /No route of the notifier/],
    ["it is over", { key: a.key, notifier: "answered", over_at: at(-1), deliveries: [{ step: "step1", address: "log", state: "retracted", due_at: at(-9), sent_at: at(-9), tries: 1 }] }, /It is over: nobody else is told/],
    ["who may not decide it", new GatewayError(403, "forbidden", "no"), /for those who may decide this/],
    ["a server that cannot tell", new GatewayError(503, "unavailable", "not now"), /could not be looked up: not now/],
  ])("says in plain words: %s", async (_what, reply, words) => {
    expect(await told(reply)).toHaveTextContent(words);
  });
});
