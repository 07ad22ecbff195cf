// Package rig runs the product as a cluster: three servers and three gateways,
// each a process of its own, on loopback, with the product's own accounts and
// credentials. It kills, pauses and restarts them as a seed says. The parts are
// the running binary again, so its main has to look for them first.
package rig
