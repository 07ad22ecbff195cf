// Package claude drives one Claude Code process over its stdio control
// protocol. It knows nothing of the bus, of interactions or of people: it turns
// the CLI's lines into events and a few methods into lines.
//
// What it promises:
//
//   - Events come in the order of the CLI's lines, from one goroutine, and the
//     last one is Exited.
//   - A tool's input travels byte for byte in both directions (see protocol).
//   - An ask is answered at most once, and never after the CLI withdrew it.
//   - The CLI takes the end of its input for a denial of every open ask, and
//     the model then acts on that denial. So Close refuses while anything is
//     open or running, and with a guard (see RunGuard) the CLI is killed before
//     it could notice that its driver is gone.
package claude
