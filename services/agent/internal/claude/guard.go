package claude

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// GuardCommand is the argument by which an executable offers RunGuard:
//
//	if len(os.Args) > 1 && os.Args[1] == claude.GuardCommand {
//		os.Exit(claude.RunGuard(os.Args[2:]))
//	}
const GuardCommand = "__guard"

const (
	// The files a guard inherits beside the CLI's three.
	lifelineFD = 3 // its end means: kill
	keepFD     = 4 // a second writing end of the CLI's input
	// lifelineEOF on the lifeline has the guard close keepFD.
	lifelineEOF = 'e'

	exitUsage = 2
	exitStart = 127
	// sweepLimit bounds the killing of what the CLI left behind.
	sweepLimit = 3 * time.Second
)

// RunGuard runs the command in args on the guard's own standard files, and
// returns the exit code. It stands between a driver and the CLI, for the moment
// the driver dies: it keeps the CLI's input open until the CLI and everything it
// started are killed, so that the CLI never takes the death for a denial. Only a
// driver can start it, since it needs that driver's pipes.
func RunGuard(args []string) int {
	life, keep := os.NewFile(lifelineFD, "lifeline"), os.NewFile(keepFD, "input")
	if len(args) == 0 || !isPipe(life) || !isPipe(keep) {
		fmt.Fprintln(os.Stderr, "guard: this command is started by the product itself")
		return exitUsage
	}
	// Neither may leak into the CLI: it would keep its own input open.
	syscall.CloseOnExec(lifelineFD)
	syscall.CloseOnExec(keepFD)
	// Caught, not ignored: an ignored signal would stay ignored in the CLI.
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(sig)
	adoptOrphans()

	// The kernel ties the death signal to this thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = processAttr(true)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		return exitStart
	}
	// From here on the CLI alone holds these ends, so that its driver notices
	// when they close.
	_ = os.Stdin.Close()
	_ = os.Stdout.Close()

	gone := make(chan struct{})
	go func() { // ends with the process
		b := make([]byte, 1)
		for {
			n, err := life.Read(b)
			if n == 1 && b[0] == lifelineEOF {
				_ = keep.Close()
			}
			if err != nil {
				close(gone)
				return
			}
		}
	}()
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the state says it all
	}()
	select {
	case <-exited:
	case <-gone:
		killGroup(cmd.Process.Pid)
		<-exited
		sweep()
	}
	return exitCode(cmd.ProcessState, nil)
}

func isPipe(f *os.File) bool {
	if f == nil {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeNamedPipe != 0
}

// killGroup kills a process and its group. The group may be gone already.
func killGroup(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// sweep kills and reaps the descendants that the CLI left: its tools run in
// groups of their own.
func sweep() {
	until := time.Now().Add(sweepLimit)
	for time.Now().Before(until) {
		for _, pid := range children() {
			killGroup(pid)
		}
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // no child is left
			return
		case pid == 0:
			time.Sleep(time.Millisecond)
		}
	}
}

// children lists the direct children by /proc; elsewhere there are none to see.
func children() []int {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	var out []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, s := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(s); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}
