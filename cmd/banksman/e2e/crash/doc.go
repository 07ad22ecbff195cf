// Package crash ends agent workers at random moments, by SIGTERM and by
// kill -9, beside a real server and gateway, and holds what is left against the
// promises of the product.
package crash
