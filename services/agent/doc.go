// Package agent is the worker service: it runs agent conversations on this
// machine and puts what they ask before people. See Options for what it needs;
// New, then Run.
package agent
