// Package cli is the commands of the terminal that talk to a running instance:
// ask, pending, decide, answer and login. Each is a function of its arguments
// and streams that returns the process's exit code; none touches signals or
// exits.
//
// What goes to a program goes to standard output, as one line of JSON where it
// is data; what is for the person goes to standard error. Text that an agent
// wrote reaches a terminal with every control character made visible.
package cli
