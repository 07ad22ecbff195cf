//go:build !unix

package proc

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }
