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
  h.api.replies["GET /api/sign-ins"] = { sign_ins: [
    { id: "s1", via: "passkey", created_at: "2026-01-01T00:00:00Z", expires_at: "2099-01-01T00:00:00Z", last_seen: "2026-01-02T00:00:00Z", from: "192.0.2.7", first_from: "192.0.2.7", agent: "Firefox", this: true },
    { id: "s2", via: "cli", name: "build box", created_at: "2026-01-01T00:00:00Z", expires_at: "2099-01-01T00:00:00Z", last_seen: "2026-01-01T00:00:00Z", from: "198.51.100.2", first_from: "198.51.100.1" },
  ] };
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

  it("finds a terminal by the code that was typed, however it is spaced, and asks before it comes in", async () => {
    location.hash = "#/terminal";
    const { h, user } = settings();
    h.api.replies["GET /api/cli-logins/KX4F92QD"] = { code: "KX4F92QD", name: "sam@box", requested_at: "2026-11-28T00:00:00Z", expires_at: "2026-11-28T00:10:00Z" };
    const field = await screen.findByTestId("cli-code");
    expect(field).toHaveFocus();
    await user.type(field, "aaaa aaaa{Enter}");
    const part = within(screen.getByRole("region", { name: "Let a terminal in" }));
    expect(await part.findByRole("alert")).toHaveTextContent("nothing at /api/cli-logins/AAAAAAAA");
    expect(screen.queryByTestId("cli-login")).toBeNull();
    await user.clear(field);
    await user.type(field, " kx4f-92qd ");
    await user.click(screen.getByTestId("cli-find"));
    expect(await screen.findByTestId("cli-login")).toHaveTextContent("sam@box");
    expect(h.api.calls.filter((c) => c.startsWith("cli "))).toEqual([]);
    await user.click(screen.getByTestId("cli-login-refuse"));
    expect(h.api.calls).toContain("cli KX4F92QD false");
  });

  it("a terminal's own session lets no other in", async () => {
    settings({ via: "cli" });
    await screen.findByTestId("roles");
    expect(screen.queryByTestId("cli-code")).toBeNull();
  });

  it("signing out everywhere asks twice", async () => {
    const { h, user } = settings();
    h.api.replies["POST /api/logout/everywhere"] = { ok: true };
    await user.click(await screen.findByTestId("everywhere"));
    expect(h.api.calls.filter((c) => c.includes("everywhere"))).toEqual([]);
    await user.click(screen.getByTestId("everywhere-sure"));
    expect(h.api.calls).toContain("POST /api/logout/everywhere {}");
  });

  it("lists where one is signed in, and ends one or all others after a second press", async () => {
    const { h, user } = settings();
    h.api.replies["DELETE /api/sign-ins/s2"] = { ok: true };
    h.api.replies["POST /api/logout/others"] = { ok: true };
    const part = within(await screen.findByRole("region", { name: "Where you are signed in" }));
    const here = await part.findByTestId("sign-in-s1");
    expect(here).toHaveTextContent(/A passkey \(here\)Last used .*, from 192\.0\.2\.7\.Since .*Firefox/);
    expect(within(here).queryByText("End it")).toBeNull();
    const other = part.getByTestId("sign-in-s2");
    expect(other).toHaveTextContent(/A terminal: build box.*from 198\.51\.100\.2; first from 198\.51\.100\.1/);
    await user.click(within(other).getByText("End it"));
    expect(h.api.calls.filter((c) => c.startsWith("DELETE"))).toEqual([]);
    await user.click(within(other).getByText("End it: yes"));
    expect(h.api.calls).toContain("DELETE /api/sign-ins/s2");
    await user.click(part.getByText("End all others"));
    await user.click(part.getByText("End all others: yes"));
    expect(h.api.calls).toContain("POST /api/logout/others {}");
  });

  it("gives somebody several roles, each for its projects, and begins with those there are", async () => {
    const { h, user } = settings({ manages: true });
    h.api.replies["POST /api/users/ada"] = {};
    const form = within((await screen.findByTestId("user-ada")).querySelector("form")!);
    expect(form.getByLabelText("Role")).toHaveValue("admin");
    await user.click(form.getByTestId("role-more"));
    await user.click(form.getByTestId("role-more"));
    await user.selectOptions(form.getAllByLabelText("Role")[1]!, "approver");
    await user.clear(form.getAllByLabelText(/Projects/)[1]!);
    await user.type(form.getAllByLabelText(/Projects/)[1]!, "shop bank");
    await user.click(form.getByRole("button", { name: "Remove role 1" }));
    await user.click(form.getByText("Change to these"));
    expect(h.api.calls).toContain('POST /api/users/ada {"roles":[{"role":"approver","projects":["shop","bank"]},{"role":"viewer","projects":["*"]}]}');
  });

  it("keeps the tenants that a role is bound to when roles are changed", async () => {
    const { h, user } = settings({ manages: true });
    h.api.replies["GET /api/users"] = { users: [{ id: "ada", name: "Ada", roles: [{ role: "viewer", projects: ["*"] }, { role: "admin", projects: ["*"], tenants: ["acme", "b"] }], source: "invite", passkeys: 1, created: "2026-01-01T00:00:00Z" }] };
    h.api.replies["POST /api/users/ada"] = {};
    expect(await screen.findByTestId("user-ada")).toHaveTextContent("viewer of everything; admin of everything in acme, b");
    const form = within((await screen.findByTestId("user-ada")).querySelector("form")!);
    await user.selectOptions(form.getAllByLabelText("Role")[1]!, "approver");
    await user.click(form.getByText("Change to these"));
    expect(h.api.calls).toContain('POST /api/users/ada {"roles":[{"role":"viewer","projects":["*"]},{"role":"approver","projects":["*"],"tenants":["acme","b"]}]}');
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
