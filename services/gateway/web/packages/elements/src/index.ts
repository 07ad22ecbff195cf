// <banksman-inbox> and <banksman-interaction>, for any page.
import { BanksmanInbox, BanksmanInteraction } from "./element";

export { BanksmanInbox, BanksmanInteraction };
export { Client, DirectTransport, HttpTransport, WebSocketTransport } from "@banksman/client";

// A page may load the module by two addresses.
if (!customElements.get("banksman-inbox")) customElements.define("banksman-inbox", BanksmanInbox);
if (!customElements.get("banksman-interaction")) customElements.define("banksman-interaction", BanksmanInteraction);
