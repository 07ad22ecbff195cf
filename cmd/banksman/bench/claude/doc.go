// Command claude measures how long a tool of the real Claude Code waits after a
// person has allowed it: through "banksman up", and, as the floor, through the
// least program that answers the CLI's question itself. The model is the scripted
// stand-in of the tests. No time makes it fail. docs/benchmarks.md explains the
// figures.
package main
