// Command soak asks, decides, withdraws and reads a few thousand interactions
// over three gateways and a cluster of three servers, each a process of its
// own, while it kills, restarts and pauses them, and kills workers that ask, and
// then proves from what every client saw that each interaction had one decision:
// the histories have to be linearizable, and the streams have to hold what the
// clients were told.
//
// A seed decides what is asked, by whom it is decided and what is killed when;
// how the processes interleave is up to the machine.
package main
