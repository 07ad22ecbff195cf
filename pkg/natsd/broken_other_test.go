//go:build !unix

package natsd_test

func limitFiles() {}
