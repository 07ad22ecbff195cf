// Command notify measures the notifier: how long it takes from an event of a
// gateway until the provider has the request, beside a bare consumer that posts the
// same body; that nobody is missed or told twice while replicas are killed; what an
// idle address costs; and how few messages a flood becomes. Every part is a process
// of its own. docs/benchmarks.md explains the figures. No time makes it fail; a
// request that was missed, told twice, or too many messages do.
package main
