// Command bench measures what it takes to ask a person and go on: from an asker
// over the bus and a gateway to a WebSocket client that answers at once, and
// back, beside bare NATS request-reply of the same run. Server, gateway and the
// floor's other end are this binary again, as processes of their own; they end
// with their standard input. It fails if a decision is lost or doubled, never
// because something took long. docs/benchmarks.md explains the figures.
package main
