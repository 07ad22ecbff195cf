// Command web measures what many browsers cost a gateway: idle sockets, fan-out,
// bursts, a reader that stalls, everybody coming back at once, and the time until
// a card is painted in a real browser. Gateway, load and floor are this binary
// again, as processes of their own; the floor is raw TCP in the same run, taking
// turns with the product. It fails if an event is lost or doubled, never because
// something took long. docs/benchmarks.md explains the figures.
package main
