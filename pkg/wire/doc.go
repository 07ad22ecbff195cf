// Package wire is the frames around the records: what travels between a
// gateway and its clients, over WebSocket, SSE and HTTP. The records inside
// them are those of package hitl.
//
// Every frame is a JSON object whose "type" names it. A cursor is opaque to
// clients: they store the last one and hand it back. Times are RFC 3339 in UTC
// by the server's clock.
package wire
