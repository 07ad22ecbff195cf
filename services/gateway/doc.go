// Package gateway is the gateway service: the only writer of decisions, and
// the door through which people and programs reach them. It serves the web app,
// HTTP, WebSocket, server-sent events and the service API on the bus.
//
// Several gateways may serve the same streams; each needs a gateway credential
// and nothing else of its own.
package gateway
