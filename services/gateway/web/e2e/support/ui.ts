// The screens in the words of who uses them: every name, role and text that the
// tests look for stands here or in requests.ts.
import { expect, type Locator, type Page } from "@playwright/test";
import type { Site } from "./site.ts";
import type { Asked } from "./asker.ts";

/** The states of a card, as it tells them itself. */
export type State = "pending" | "sending" | "unsure" | "refused" | "confirmed" | "lost" | "decided" | "expired" | "withdrawn" | "orphaned" | "gone" | "broken";

export class App {
  readonly inbox: Locator;
  readonly live: Locator;
  readonly connection: Locator;
  readonly help: Locator;
  /** What is selected, and the sheet that lists it. */
  readonly selection: Locator;
  readonly sheet: Locator;
  /** "Always…": its menu, and the sheet on which a rule is read. */
  readonly menu: Locator;
  readonly ruleSheet: Locator;

  constructor(readonly page: Page, readonly product: Site) {
    this.inbox = page.getByTestId("inbox");
    this.live = page.getByTestId("live-region");
    this.connection = page.getByRole("region", { name: "Connection" });
    this.help = page.getByRole("dialog", { name: "Keys" });
    this.selection = page.getByRole("region", { name: "Selection" });
    this.sheet = page.getByRole("dialog", { name: /^Decide/ });
    this.menu = page.getByRole("menu", { name: "Make a rule" });
    this.ruleSheet = page.getByRole("dialog", { name: /^(Allow this from now on|What the rule matches)$/ });
  }

  /** Signs in with a link of the terminal. */
  async signIn(): Promise<void> {
    await this.page.goto(await this.product.link());
    await expect(this.connection).toHaveText(/Connected/);
  }

  /** As the holder of a token, who is whatever the token is. */
  async signInWith(token: string): Promise<void> {
    await this.page.goto(this.product.url);
    await this.page.evaluate((t) => localStorage.setItem("banksman.session", JSON.stringify({ token: t })), token);
    await this.page.reload();
    await expect(this.connection).toHaveText(/Connected/);
  }

  /** Another tab of the same browser. */
  async tab(): Promise<App> {
    const other = new App(await this.page.context().newPage(), this.product);
    await other.page.goto(this.product.url);
    await expect(other.connection).toHaveText(/Connected/);
    return other;
  }

  async go(place: "" | "history" | "settings" | "rules" | "sessions" | "new" | `s/${string}` | `i/${string}`): Promise<void> {
    await this.page.goto(`${this.product.url}/#/${place}`);
  }

  /** One request by itself, where the link of an alert leads. */
  async open(asked: Asked): Promise<Card> {
    await this.go(`i/${encodeURIComponent(asked.key)}`);
    const card = this.card(asked);
    await expect(card.root).toBeVisible();
    return card;
  }

  card(asked: { id: string }): Card {
    return new Card(this, this.page.getByTestId(`card-${asked.id}`));
  }

  row(asked: { id: string }): Row {
    return new Row(this.page.getByTestId(`row-${asked.id}`));
  }

  /** One line for each, wherever that is not so already. */
  async overview(): Promise<void> {
    await expect(this.inbox).toHaveAttribute("data-view", /rows|cards/);
    if ((await this.inbox.getAttribute("data-view")) === "cards") await this.page.getByRole("button", { name: "Overview" }).click();
  }

  /** All of each. */
  async wholeCards(): Promise<void> {
    await expect(this.inbox).toBeVisible();
    if ((await this.inbox.getAttribute("data-view")) === "rows") await this.page.getByRole("button", { name: "Whole cards" }).click();
  }

  cards(): Locator {
    return this.page.locator('article[data-testid^="card-"]');
  }

  /** What has the focus, as a selector that a person can read. */
  async focused(): Promise<string> {
    return await this.page.evaluate(() => {
      const e = document.activeElement;
      return e ? `${e.tagName.toLowerCase()} ${e.getAttribute("data-testid") ?? e.getAttribute("aria-label") ?? e.id}` : "";
    });
  }
}

/** A request in the overview. */
export class Row {
  readonly approve: Locator;
  /** Shows all of it, in its place. */
  readonly open: Locator;
  readonly select: Locator;

  constructor(readonly root: Locator) {
    this.approve = root.getByRole("button", { name: /^Approve once/ });
    this.open = root.getByRole("button", { name: /^(Review|Open)/ });
    this.select = root.getByRole("checkbox", { name: /^Select/ });
  }
}

export class Card {
  readonly approve: Locator;
  readonly deny: Locator;
  readonly denyWithReason: Locator;
  readonly reason: Locator;
  readonly sendReason: Locator;
  readonly always: Locator;
  readonly edit: Locator;
  readonly editText: Locator;
  readonly approveEdited: Locator;
  readonly submit: Locator;
  readonly clarify: Locator;
  readonly clarifyText: Locator;
  readonly sendClarify: Locator;
  readonly dismiss: Locator;
  readonly unsent: Locator;

  constructor(readonly app: App, readonly root: Locator) {
    const button = (name: RegExp) => root.getByRole("button", { name });
    this.approve = button(/^Approve (once|for)/);
    this.deny = button(/^Deny( n)?$/);
    this.denyWithReason = button(/^Deny with reason/);
    this.reason = root.getByRole("textbox", { name: /Why not\?/ });
    this.sendReason = button(/^Deny with this reason/);
    this.always = button(/^Always/);
    this.edit = button(/^Edit/);
    this.editText = root.getByRole("textbox", { name: /The input that will run/ });
    this.approveEdited = button(/^Approve the edited input/);
    this.submit = button(/^Submit/);
    this.clarify = button(/^Answer in words instead/);
    this.clarifyText = root.getByRole("textbox", { name: /^Tell the agent something/ });
    this.sendClarify = button(/^Send these words/);
    this.dismiss = button(/^Dismiss/);
    this.unsent = root.getByTestId("unsent");
  }

  async is(state: State): Promise<void> {
    await expect(this.root).toHaveAttribute("data-state", state);
  }

  /** All of it is here and it can be answered. */
  async isWhole(): Promise<void> {
    await this.is("pending");
    await expect(this.root).not.toContainText("Fetching the whole request");
  }

  /** Everything that decides, wherever the card offers it. */
  deciding(): Locator {
    return this.root.getByRole("button", { name: /^(Approve|Deny|Submit|Send these words|Dismiss)/ });
  }

  /** Opens what is folded and brings every end on screen, as Approve demands. */
  async seeAll(): Promise<void> {
    const folded = this.root.getByRole("button", { name: /^Show (all|the whole)/ });
    for (let n = await folded.count(); n > 0; n--) await folded.first().click();
    for (const text of await this.root.getByLabel(/whole text$/).all()) {
      await text.evaluate((e) => e.scrollTo(0, e.scrollHeight));
    }
    await this.root.evaluate((e) => e.scrollIntoView({ block: "end" }));
  }

  option(label: string): Locator {
    return this.root.getByRole("radio", { name: label }).or(this.root.getByRole("checkbox", { name: label }));
  }

  /** The field for an own answer to a question. */
  own(question: string): Locator {
    return this.root.getByRole("textbox", { name: `Your own answer to: ${question}` });
  }

  /** Fills a form in. */
  async fill(content: Record<string, unknown>): Promise<void> {
    const asJson = this.root.getByRole("button", { name: "Write it as JSON instead" });
    if (await asJson.isVisible()) await asJson.click();
    await this.root.getByRole("textbox", { name: /Your answer, as JSON/ }).fill(JSON.stringify(content));
  }

  async reads(...texts: (string | RegExp)[]): Promise<void> {
    for (const t of texts) await expect(this.root).toContainText(t);
  }

  /** Nothing here decides any more. */
  async isOver(): Promise<void> {
    await expect(this.deciding()).toHaveCount(0);
  }

  /** Nothing here decides at the moment. */
  async isDead(): Promise<void> {
    for (const b of await this.deciding().all()) await expect(b).toBeDisabled();
  }
}
