import { screen, within } from "@testing-library/react";
import { beforeEach, describe, expect, it } from "vitest";
import { online } from "../testing/harness";
import { mount } from "../testing/mount";

const me = {
  principal: { kind: "person", id: "sam", name: "Sam" }, channel: "web", assurance: "session", via: "passkey", expires_at: "2099-01-01T00:00:00Z",
  roles: [{ role: "approver", projects: ["shop", "bank"] }, { role: "viewer", projects: ["*"] }], passkey: true, manages: false,
};

beforeEach(() => void (location.hash = "#/settings"));

function settings(over = {}) {
  const h = online([]);
  h.api.replies["GET /api/me"] = { ...me, ...over };
  h.api.replies["GET /api/users"] = { users: [{ id: "ada", name: "Ada", roles: [{ role: "admin", projects: ["*"] }], source: "invite", passkeys: 1, created: "2026-01-01T00:00:00Z" }] };
  h.api.replies["GET /api/tokens"] = { tokens: [{ id: "t1", name: "ci", roles: [], created: "2026-01-01T00:00:00Z", created_by: "sam", expires_at: "2099-01-01T00:00:00Z" }] };
  return { h, ...mount(h) };
}

describe("settings", () => {
  it("tells who is signed in, how, and what they may do; people and tokens are for those who manage them", async () => {
    settings();
    expect(await screen.findByTestId("roles")).toHaveTextContent("approver of shop, bank; viewer of everything");
    expect(screen.getByTestId("settings")).toHaveTextContent("a passkey");
    expect(screen.queryByText("People")).toBeNull();
    expect(screen.queryByText("Tokens of programs")).toBeNull();
  });

  it("signing out ends the session on the server, too", async () => {
    const { h, user } = settings();
    h.api.replies["POST /api/logout"] = { ok: true };
    await user.click(await screen.findByText("Sign out here"));
    expect(h.api.calls).toContain("POST /api/logout {}");
    expect(screen.getByTestId("login-needed")).toBeInTheDocument();
  });

  it("signing out everywhere asks twice", async () => {
    const { h, user } = settings();
    h.api.replies["POST /api/logout/everywhere"] = { ok: true };
    await user.click(await screen.findByTestId("everywhere"));
    expect(h.api.calls.filter((c) => c.includes("everywhere"))).toEqual([]);
    await user.click(screen.getByTestId("everywhere-sure"));
    expect(h.api.calls).toContain("POST /api/logout/everywhere {}");
  });

  it("keeps what a person chooses for this browser", async () => {
    const { user } = settings();
    await user.click(await screen.findByRole("switch", { name: /Single keys/ }));
    expect(localStorage.getItem("banksman.keys")).toBe("off");
    await user.click(screen.getByRole("switch", { name: /Sound/ }));
    expect(localStorage.getItem("banksman.set.sound")).toBe("on");
    await user.selectOptions(screen.getByLabelText("Inbox"), "rows");
    expect(localStorage.getItem("banksman.set.inbox")).toBe("rows");
  });

  it("invites somebody with a role, and shows the link once", async () => {
    const { h, user } = settings({ manages: true });
    h.api.replies["POST /api/users"] = {};
    h.api.replies["POST /api/users/bob/invite"] = { user: { id: "bob", name: "Bob" }, url: "https://x/signin.html#invite=1", expires_at: "2099-01-01T00:00:00Z" };
    const people = within(await screen.findByRole("region", { name: "People" }));
    await user.type(people.getByTestId("user-id"), "bob");
    const form = within(people.getByTestId("user-add").closest("form")!);
    await user.selectOptions(form.getByLabelText("Role"), "approver");
    await user.clear(form.getByLabelText(/Projects/));
    await user.type(form.getByLabelText(/Projects/), "shop, bank");
    await user.click(people.getByTestId("user-add"));
    expect(h.api.calls).toContain('POST /api/users {"id":"bob","name":"","roles":[{"role":"approver","projects":["shop","bank"]}]}');
    expect(await people.findByTestId("secret")).toHaveTextContent("https://x/signin.html#invite=1");
    await user.click(people.getByText("Done"));
    expect(people.queryByTestId("secret")).toBeNull();
  });

  it("makes a token, shows it once, and revokes one after a second press", async () => {
    const { h, user } = settings({ manages: true });
    h.api.replies["POST /api/tokens"] = { id: "t2", name: "new", token: "bk_secret" };
    h.api.replies["DELETE /api/tokens/t1"] = { ok: true };
    const tokens = within(await screen.findByRole("region", { name: "Tokens of programs" }));
    await user.type(tokens.getByTestId("token-name"), "new");
    await user.click(tokens.getByTestId("token-add"));
    expect(await tokens.findByTestId("secret")).toHaveTextContent("bk_secret");
    expect(h.api.calls).toContain('POST /api/tokens {"name":"new","roles":[{"role":"responder","projects":["*"]}],"expires_in":2592000}');
    await user.click(within(tokens.getByTestId("token-t1")).getByText("Revoke"));
    expect(h.api.calls.filter((c) => c.startsWith("DELETE"))).toEqual([]);
    await user.click(within(tokens.getByTestId("token-t1")).getByText("Revoke: yes"));
    expect(h.api.calls).toContain("DELETE /api/tokens/t1");
  });

  it("what the server refuses stands there in its words", async () => {
    const { user } = settings({ manages: true });
    const people = within(await screen.findByRole("region", { name: "People" }));
    await user.type(people.getByTestId("user-id"), "bob");
    await user.click(people.getByTestId("user-add"));
    expect(await people.findByRole("alert")).toHaveTextContent("nothing at /api/users");
  });
});
