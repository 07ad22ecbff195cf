// Package link is a connection to the bus that outlives its servers, and the
// few things that are done over it: publish into a stream until it is
// acknowledged, read what a subject has, wait for what comes next. It knows
// which call a refusal of the server belongs to.
package link
