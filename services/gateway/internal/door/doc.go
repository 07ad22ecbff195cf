// Package door is the gateway's face to people and their programs: HTTP,
// WebSocket and server-sent events. It owns no state of interactions: every
// answer goes through api.Engine.Decide, whatever door it came by, and
// everything shown comes from the engine's projection.
//
// Every attempt gets a receipt, and no GET changes anything. Only a person's
// session token opens a door; the credentials of agents and programs do not.
package door
