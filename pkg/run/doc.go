// Package run starts and stops the parts of a process in order and owns its
// goroutines. It reads no signals and never ends the process.
package run
