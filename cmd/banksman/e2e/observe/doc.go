// Package observe tests what operators see of the product: its metrics, the alerts
// and the dashboard made of them, the traces, and what doctor finds. The product
// runs as processes, on a NATS server of its own.
package observe
