// What the empty inbox says of alerts: by what people would be told, and whether that works.
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clean } from "./support/axe.ts";
import { command, inSession } from "./support/requests.ts";
import { expect, SESSION, test } from "./support/test.ts";

const refusal = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const taken = refusal.replace("400 Bad Request", "204 No Content").replace("Content-Length: 0\r\n", "");

/** A receiver of webhooks, of which one half takes what comes and the other refuses. */
const receiver: Server = createServer((s) => s.on("error", () => undefined).once("data", (d) => s.end(String(d).startsWith("POST /good") ? taken : refusal)));
await new Promise<void>((done) => receiver.listen(0, "127.0.0.1", done));
const { port } = receiver.address() as AddressInfo;
receiver.unref();
const file = join(mkdtempSync(join(tmpdir(), "banksman-services-")), "notify.yaml");
writeFileSync(file, `channels:
  - {name: good, type: webhook, url: "http://127.0.0.1:${port}/good", secrets: ["whsec_${Buffer.alloc(32, 7).toString("base64")}"], allow_private: true, after: 0s}
  - {name: bad, type: discord, url: "http://127.0.0.1:${port}/bad", allow_private: true, after: 0s}
`, { mode: 0o600 });


test.use({ flags: ["--notify", file] });

test("the empty inbox says by what people are told, since when that works, and what does not", async ({ app, asker }) => {
  const alerts = app.page.getByTestId("alerts");
  await expect(alerts).toContainText("discord (nothing sent since it started), webhook (nothing sent since it started)");
  const asked = await asker.ask(inSession(command("deploy"), SESSION));
  await app.card(asked).isWhole();
  asked.withdraw();
  await expect(app.page.getByRole("heading", { name: "Nothing waits for you" })).toBeVisible();
  await expect(alerts).toContainText(/discord \(does not work now, nothing sent since it started\), webhook \(last sent \d\d:\d\d\)/);
  await clean(app.page, "inbox empty with channels", { pictures: true });
});
