//go:build !unix

package rig

import (
	"errors"
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

func pauseProcess(*os.Process, bool) error {
	return errors.New("processes cannot be paused here: run without --pause")
}
