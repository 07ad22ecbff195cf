// Package contract is the gateway's protocol as documents for others: OpenAPI
// 3.1 of the HTTP routes, JSON Schema 2020-12 of the WebSocket frames. Both are
// generated from the types that the gateway itself encodes and decodes, and
// committed, so that the program carries no generator.
package contract

import _ "embed"

//go:generate go run ./gen

// OpenAPI describes the HTTP routes, event streams included.
//
//go:embed openapi.json
var OpenAPI []byte

// Frames describes the frames of both sides of the WebSocket.
//
//go:embed frames.schema.json
var Frames []byte
