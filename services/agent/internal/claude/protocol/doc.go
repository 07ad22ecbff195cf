// Package protocol is the codec of Claude Code's stdio control protocol: lines
// in, events out, and the lines a host may send. It starts nothing and keeps no
// connection.
//
// A tool's input travels byte for byte in both directions. On the way to the CLI
// only line breaks between JSON tokens become spaces, and U+2028 and U+2029
// become escapes, because either would end the line.
package protocol
