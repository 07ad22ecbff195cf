// Package e2e starts the product as a user would and uses it through its real
// doors: the command line, a real browser, the real Claude Code CLI against a
// scripted stand-in of the model API, and real NATS servers. It has tests only.
package e2e
