// Package compose runs what docker-compose.yml describes without Docker: each
// service is its program in a file system of its own, with the user, the
// environment, the volumes and the read-only root of the file.
package compose
