// A small MCP server on stdin and stdout: its one tool wants a person to open a page,
// and returns what came back, byte for byte. Its first argument is the address.
import { createInterface } from "node:readline";

const [, , url] = process.argv;
const say = (m) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...m })}\n`);
let can = {};
let call;

for await (const line of createInterface({ input: process.stdin })) {
  const m = JSON.parse(line);
  if (m.method === "initialize") {
    can = m.params.capabilities ?? {};
    say({ id: m.id, result: { protocolVersion: m.params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "gate", version: "1" } } });
  } else if (m.method === "tools/list") {
    say({ id: m.id, result: { tools: [{ name: "connect", description: "Connect an account", inputSchema: { type: "object", properties: {} } }] } });
  } else if (m.method === "tools/call") {
    call = m.id;
    say({ id: "page-1", method: "elicitation/create", params: { mode: "url", elicitationId: "e-1", url, message: "Please connect your account" } });
  } else if (m.id === "page-1") {
    say({ id: call, result: { content: [{ type: "text", text: `page: ${JSON.stringify(m.result ?? m.error)} ${JSON.stringify(can.elicitation ?? null)}` }] } });
  } else if (m.id !== undefined) {
    say({ id: m.id, error: { code: -32601, message: "no such method" } });
  }
}
