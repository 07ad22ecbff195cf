//go:build !unix

package peer

import "syscall"

func alone(*account) *syscall.SysProcAttr { return nil }
