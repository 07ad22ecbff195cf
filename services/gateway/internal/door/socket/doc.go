// Package socket serves browsers over WebSocket: it signs them in, shows them
// what is open and what happens, and takes their answers.
//
// A message is one frame object or a JSON array of frame objects: everything
// that waited while a message was on its way leaves in one. A reader that falls
// behind is cut with a code after which it comes back with its cursor, so that
// one slow reader costs the others nothing.
package socket
