// Package gate stands between an agent that asks "may I?" and the people who
// answer. A runtime opens an Ask; the gate puts it on the bus, waits, checks
// that the decision is about what was asked, and hands the runtime a Settled.
//
// What it promises:
//
//   - Asks are independent: any number may be open, and they end in any order.
//   - An approval that is not verifiably about the bytes held here runs nothing.
//   - An approval is handed out at most once, over restarts too.
//   - No decision means no consent: whatever goes wrong, the runtime is told
//     not to run the tool, and which of the things went wrong.
//   - An ask the agent took back is withdrawn from people and never answered.
package gate
