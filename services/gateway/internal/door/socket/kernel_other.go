//go:build !unix

package socket

import "errors"

const neverWaits = false

func writeNow(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

func again(error) bool { return false }
