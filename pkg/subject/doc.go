// Package subject is the grammar of the bus: it builds and reads the subjects
// of every record. A token is 1 to 64 characters of A-Z, a-z, 0-9, underscore
// and hyphen; anything else, and anything that begins with "h_", travels as
// "h_" and the base64url SHA-256 of the text.
package subject
