// Package pull asks durable and other consumers for messages and believes of
// what comes only what the server says: never a header that was stored.
package pull
