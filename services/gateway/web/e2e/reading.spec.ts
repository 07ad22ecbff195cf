// What a screen reader finds in a card of each kind: roles and names, in the order in
// which they are read. More may stand between them; nothing may be missing or move.
import { inSession, kinds } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";

const who = `
  - paragraph:
    - text: Build agent Release 2.4
    - link "Open session"`;

const consent = `
  - paragraph: /Asked \\d\\d:\\d\\d, just now\\. Waits until \\d\\d:\\d\\d \\(\\d+ min left\\), then it expires and the tool does not run\\./
  - button "Deny"
  - button "Deny with reason"
  - button "Edit"
  - button "Dismiss"
  - button "Approve once"
  - button "Always…"`;

const form = (words: string): string => `
- article "Build agent asks you to fill in a form":
  - heading "Build agent asks you to fill in a form" [level=2]
  - paragraph: /\\d+ min left/${who}
  - figure "In the agent’s own words": ${words}
  - group "Environment":
    - radio "staging"
    - radio "production"
  - text: Replicas A whole number from 1 to 9
  - textbox "Replicas"
  - group "Announce it optional":
    - radio "Yes"
    - radio "No"
  - button "Write it as JSON instead"
  - paragraph: /Asked .* Waits until .* then it expires\\./
  - button "Dismiss"
  - button "Answer in words instead"
  - text: 2 fields missing
  - button "Submit form" [disabled]
`;

const cards: Record<string, string> = {
  Bash: `
- article "Build agent wants to force-push release/2.4 to origin and delete build/ for good":
  - heading "Build agent wants to force-push release/2.4 to origin and delete build/ for good" [level=2]
  - paragraph: /High risk, cannot be undone \\d+ min left/${who}
  - group "Command":
    - code: /srv/shop
    - button "Copy"
    - text: cd /srv/shop &&
    - mark: git push --force origin release/2.4 2
    - mark: rm -rf build/ 3
    - list "The commands in this line":
      - listitem:
        - code: cd /srv/shop
        - text: first
      - listitem:
        - code: git push --force origin release/2.4
        - text: "then, if that worked High risk: rewrites a published branch"
      - listitem:
        - code: rm -rf build/
        - text: "then, if that worked High risk: deletes files for good"
  - figure "In the agent’s own words": /Push and clean up Publish the release Why it asks:\\s?The release is due\\./${consent}
`,
  Write: `
- article "Build agent wants to write /srv/shop/RELEASE.md (50 lines)":
  - heading "Build agent wants to write /srv/shop/RELEASE.md (50 lines)" [level=2]
  - paragraph: /Medium risk/${who}
  - text: File
  - code: /srv/shop/RELEASE.md
  - group "Content":
    - text: Content 50 lines
    - button "Copy"
    - button "Show all 50 lines, 40 lines hidden"
  - figure "In the agent’s own words": In the agent’s own words Write the notes
  - paragraph: /Waits until/
  - paragraph: Approve opens once you have opened and seen the whole text.
  - button "Deny"
  - button "Deny with reason"
  - button "Edit" [disabled]
  - button "Dismiss"
  - button "Approve once" [disabled]
  - button "Always…" [disabled]
`,
  Edit: `
- article "Build agent wants to change /srv/shop/config.yaml (+2 −1)":
  - heading "Build agent wants to change /srv/shop/config.yaml (+2 −1)" [level=2]
  - paragraph: /Medium risk/${who}
  - text: File
  - code: /srv/shop/config.yaml
  - group "Change":
    - text: Change added lines +2 removed lines −1
    - button "Side by side"
    - button "Copy"
    - text: "removed: retries: 3 added: retries: 5 timeout: 10s added: backoff: yes"
  - figure "In the agent’s own words": In the agent’s own words Raise the limits${consent}
`,
  "MCP tool": `
- article "Build agent wants to use close of the MCP server tickets":
  - heading "Build agent wants to use close of the MCP server tickets" [level=2]
  - paragraph: /Medium risk/${who}
  - group "Input":
    - button "Copy"
    - text: /ticket.*SHOP-17.*comment.*Done in 2\\.4/
  - figure "In the agent’s own words": In the agent’s own words close (tickets)${consent}
`,
  "unknown tool as JSON": `
- article "Build agent wants to use the tool Telescope":
  - heading "Build agent wants to use the tool Telescope" [level=2]
  - paragraph: /Medium risk/${who}
  - group "Input":
    - button "Copy"
    - text: /target.*M31.*exposure.*30/
  - figure "In the agent’s own words": In the agent’s own words Turn the telescope${consent}
`,
  plan: `
- article "Build agent wants to leave plan mode and start on its plan":
  - heading "Build agent wants to leave plan mode and start on its plan" [level=2]
  - paragraph: /Medium risk/${who}
  - group "Plan":
    - text: Plan 4 lines
    - button "Copy"
    - text: "# Plan 1. Raise the limits 2. **Publish** the release"
  - figure "In the agent’s own words": In the agent’s own words Leave plan mode and start on the plan${consent.replace('\n  - button "Always…"', "")}
`,
  "link of an MCP server": `
- article "Build agent wants to have you open a page of tickets.example":
  - heading "Build agent wants to have you open a page of tickets.example" [level=2]
  - paragraph: /Medium risk .* opens a web page in your browser/${who}
  - text: Host
  - code: tickets.example
  - group "Address":
    - button "Copy"
    - text: https://tickets.example/connect?account=17
  - paragraph:
    - link "Open it in a new tab"
    - text: Nothing opens by itself, and opening it tells the agent nothing. Approve once you are done there.
  - figure "In the agent’s own words": /Link of the MCP server tickets Please connect your account/
  - paragraph: /Asked/
  - button "Deny"
  - button "Deny with reason"
  - button "Dismiss"
  - button "Approve once"
`,
  question: `
- article "Build agent asks 2 questions":
  - heading "Build agent asks 2 questions" [level=2]
  - paragraph: /\\d+ min left/${who}
  - group "Questions":
    - text: 0 of 2 answered
    - button /1 ?, open Database/
    - button /2 ?, open Features/
  - group "1. Database Which database?":
    - radio "Postgres What we run already"
    - group "Preview of Postgres": CREATE TABLE orders ();
    - radio "SQLite One file"
    - radio "Something else"
    - 'textbox "Your own answer to: Which database?"'
  - group "2. Features Which features? Choose any that apply":
    - checkbox "Login"
    - checkbox "Audit log"
    - checkbox "Something else too"
    - 'textbox "Your own answer to: Which features?"'
  - paragraph: /Asked .* then the agent is told that nobody answered\\./
  - button "Dismiss"
  - button "Answer in words instead"
  - text: 2 answers missing
  - button "Submit answers" [disabled]
`,
  form: form("In the agent’s own words Where to release"),
  "elicitation of an MCP server": form("In the agent’s own words Form of the MCP server tickets Where shall the ticket's fix go?"),
};

test("a card of each kind is read from its effect to its buttons, each part with its role and name D0-32 D0-38 D1-34 D1-37", async ({ app, asker }) => {
  for (const kind of kinds) {
    await test.step(kind.name, async () => {
      const card = await app.open(await asker.ask(inSession(kind.request, SESSION)));
      await card.isWhole();
      await expect(card.root).toMatchAriaSnapshot(cards[kind.name]!);
    });
  }
});

test("on a phone the same is read in the same order, and its buttons come last D1-34", async ({ app, asker }) => {
  await app.page.setViewportSize({ width: 390, height: 844 });
  for (const kind of kinds.filter((k) => k.request.kind === "approval" && !/^(Write|link)/.test(k.name))) {
    await test.step(kind.name, async () => {
      const card = await app.open(await asker.ask(inSession(kind.request, SESSION)));
      await card.isWhole();
      await card.seeAll();
      const up = cards[kind.name]!;
      const always = kind.name === "plan" ? "" : '\n  - button "Always…"';
      await expect(card.root).toMatchAriaSnapshot(`${up.slice(0, up.indexOf("\n  - paragraph: /Asked")).replace('\n    - button "Side by side"', "")}
  - paragraph: /Asked/
  - button "Deny"
  - button "Approve once"
  - button "Deny with reason"
  - button "Edit"
  - button "Dismiss"${always}
`);
    });
  }
});

test("a receipt of each kind is read: what, by whom, of what, and what became of it D0-36 D0-38", async ({ app, product, asker }) => {
  const colleague = await product.colleague("Grace");
  for (const kind of kinds) {
    await test.step(kind.name, async () => {
      const asked = await asker.ask(inSession(kind.request, SESSION));
      await colleague.decide(asked.key, kind.other);
      const card = await app.open(asked);
      await expect(card.root.locator("[data-stage=applied]")).toBeVisible();
      const head = (await product.interaction(asked.key)).headline;
      await expect(card.root).toHaveAccessibleName(head);
      await expect(card.root).toMatchAriaSnapshot(`
- article:
  - paragraph: /${kind.otherWord === "denied" ? "Denied" : "Answered"} by Grace, \\d\\d:\\d\\d, web/
  - paragraph: /${head.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")}/
  - paragraph: /Delivered to the agent \\d\\d:\\d\\d/
`);
      await expect(card.root.getByRole("button", { name: /^(Approve|Deny|Submit|Dismiss)/ })).toHaveCount(0);
    });
  }
});
