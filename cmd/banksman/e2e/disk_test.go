package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// disk is a small file system of its own, seen at dir by the processes that are
// started on it. It is gone when the test ends.
type disk struct {
	t      *testing.T
	dir    string
	image  string   // file with a block device's content
	device string   // in /dev and below /sys/fs/ext4; empty in memory
	enter  []string // the command line before that of a process on it
	inside string   // dir, as this process sees it
}

// newDisk makes one in memory where a home's server stores. Where nothing can be
// mounted the test fails: it needs root, or user namespaces.
func newDisk(h *home) *disk {
	h.t.Helper()
	return mountDisk(h, `mount -t tmpfs -o size=24m,mode=700 tmpfs "$1"; echo mounted memory`)
}

// newBlockDisk makes one on a block device, whose errors turn it read-only as the
// root file systems of most systems do. It needs root and a free loop device; in
// a container that is --privileged.
func newBlockDisk(h *home) *disk {
	h.t.Helper()
	require.Zero(h.t, os.Geteuid(), "a file system on a block device needs root")
	image := filepath.Join(h.t.TempDir(), "disk")
	d := mountDisk(h, `truncate -s 48M "$2"; mkfs.ext4 -q -F "$2"; `+mountImage+`; echo "mounted $(findmnt --noheadings --output SOURCE --target "$1")"`, image)
	d.image = image
	return d
}

const mountImage = `mount -t ext4 -o loop,errors=remount-ro "$2" "$1"; chmod 700 "$1"`

// fail lets a block device's file system find an error.
func (d *disk) fail() {
	d.t.Helper()
	require.NoError(d.t, os.WriteFile(filepath.Join("/sys/fs/ext4", d.device, "trigger_fs_error"), []byte("1"), 0))
}

// mend checks a block device's file system, which nobody may use, and mounts it
// again.
func (d *disk) mend() {
	d.t.Helper()
	d.run("/bin/sh", "-euc", `umount "$1"; e2fsck -f -p "$2" || [ $? -eq 1 ]; `+mountImage, "sh", d.dir, d.image)
}

// mountDisk mounts in a namespace of its own, which a sleeping process keeps.
func mountDisk(h *home, script string, args ...string) *disk {
	h.t.Helper()
	d := &disk{t: h.t, dir: filepath.Join(h.data, "nats", "store")}
	require.NoError(h.t, os.MkdirAll(d.dir, 0o700))
	require.NoError(h.t, os.Chmod(h.data, 0o700))
	tool := func(name string) string {
		path, err := exec.LookPath(name)
		require.NoError(h.t, err, "util-linux is missing")
		return path
	}
	unshare := []string{"--mount", "--propagation", "private"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	holder := start(h.t, h.env, tool("unshare"), append(append(unshare, "--", "/bin/sh", "-euc",
		script+"\nexec sleep 600", "sh", d.dir), args...)...)
	d.device = strings.TrimPrefix(holder.line(`^mounted (\S+)$`)[1], "/dev/")
	pid := strconv.Itoa(holder.cmd.Process.Pid)
	d.enter = []string{tool("nsenter"), "--target", pid, "--mount"}
	if os.Geteuid() != 0 {
		d.enter = append(d.enter, "--user", "--preserve-credentials")
	}
	d.inside = filepath.Join("/proc", pid, "root", d.dir)
	return d
}

// run runs a command that sees the disk.
func (d *disk) run(args ...string) {
	d.t.Helper()
	args = slices.Concat(d.enter, args)
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	require.NoError(d.t, err, "%q: %s", args, out)
}

// start starts a program that sees the disk.
func (d *disk) start(h *home, name string, args ...string) *process {
	d.t.Helper()
	return start(d.t, h.env, d.enter[0], slices.Concat(d.enter[1:], []string{filepath.Join(bin, name)}, args)...)
}

func (d *disk) startServer(h *home) *process {
	d.t.Helper()
	p := d.start(h, "nats-server", "-c", filepath.Join(h.data, "nats", "server.conf"))
	p.line(`Server is ready`)
	return p
}

// up starts the all-in-one on the disk, with a session token for tests.
func (d *disk) up(h *home) (in *instance, token string) {
	d.t.Helper()
	file := filepath.Join(d.t.TempDir(), "token")
	p := d.start(h, "banksman", "up", "--data", h.data, "--listen", "127.0.0.1:0", "--nats-port", "-1", "--test-login", file)
	m := p.line(`(http://127\.0\.0\.1:\d+)/#login=(\S+)`)
	raw, err := os.ReadFile(file)
	require.NoError(d.t, err)
	in = &instance{process: p, home: h, login: m[0], url: m[1]}
	in.ready()
	return in, strings.TrimSpace(string(raw))
}

// fill takes all room that is left.
func (d *disk) fill() {
	d.t.Helper()
	f, err := os.OpenFile(filepath.Join(d.inside, "fill"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(d.t, err)
	defer f.Close()
	for _, size := range []int{1 << 20, 4 << 10} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		require.ErrorIs(d.t, err, syscall.ENOSPC)
	}
}

// makeRoom takes away what fill wrote.
func (d *disk) makeRoom() {
	d.t.Helper()
	require.NoError(d.t, os.Remove(filepath.Join(d.inside, "fill")))
}

// restart ends a server in good order and starts it again.
func (d *disk) restart(h *home, nats *process) *process {
	d.t.Helper()
	require.NoError(d.t, nats.cmd.Process.Signal(syscall.SIGTERM))
	nats.wait()
	return d.startServer(h)
}

// pairOn is newPair with the server's store on a disk.
func pairOn(h *home, d *disk) (nats *process, gw *instance, token string) {
	d.t.Helper()
	r := h.run("creds", "--port", strconv.Itoa(freePort(d.t)))
	require.Zero(d.t, r.code, r.stderr)
	nats = d.startServer(h)
	h.provisioned()
	gw, token = h.gateway(d.t)
	return nats, gw, token
}

// askedOn is pairOn with a request that the server has acknowledged.
func askedOn(h *home, d *disk) (nats *process, gw *instance, token string, first *process, ix wire.Interaction) {
	d.t.Helper()
	nats, gw, token = pairOn(h, d)
	first = h.ask(long("first")...)
	ix = gw.waiting(token, 1)[0]
	first.line(`Waiting for a decision`)
	return nats, gw, token, first, ix
}

// long is a command of more than one page of a file system: a file has room for
// less when its disk is full.
func long(name string) []string {
	return []string{"--tool", "Bash", "--input", fmt.Sprintf(`{"command":"make %s%s"}`, name, strings.Repeat(" x", 4<<10)), "--key", name}
}

// refused holds what everybody is told while the disk takes nothing: who asks, who
// decides, and who looks whether the gateway is ready.
func (i *instance) refused(token, id, digest string) {
	i.t.Helper()
	asked := i.home.run(append([]string{"ask", "--timeout", "1s"}, long("second")...)...)
	require.Equal(i.t, 3, asked.code, asked.stderr)
	require.Empty(i.t, asked.stdout)
	require.Contains(i.t, asked.stderr, "does not write")
	code, body := i.call("POST", "/api/interactions/"+id+"/decision", token, map[string]string{"decision": hitl.VerbAllow, "digest": digest})
	require.Equal(i.t, 503, code, body)
	require.Contains(i.t, body, "does not write")
	code, body = i.call("GET", "/readyz", "", nil)
	require.Equal(i.t, 503, code)
	require.Contains(i.t, body, "does not write")
}

// goesOn holds that what was acknowledged is there and is decided once, and that
// a new request is asked and decided.
func (i *instance) goesOn(token, id, digest string, first *process) {
	i.t.Helper()
	require.Eventually(i.t, func() bool {
		code, _ := i.call("POST", "/api/interactions/"+id+"/decision", token, map[string]string{"decision": hitl.VerbAllow, "digest": digest})
		return code == 200
	}, patience, 100*time.Millisecond)
	require.Zero(i.t, first.wait(), first.output())
	code, body := i.call("POST", "/api/interactions/"+id+"/decision", token, map[string]string{"decision": hitl.VerbDeny, "digest": digest})
	require.Equal(i.t, 409, code, body)
	i.ready()
	i.waiting(token, 0) // the second one's time is up, wherever it is
	third := i.home.ask(long("third")...)
	ix := i.waiting(token, 1)[0]
	code, body = i.decide(token, &ix, hitl.VerbDeny)
	require.Equal(i.t, 200, code, body)
	require.Equal(i.t, 1, third.wait(), third.output())
	i.waiting(token, 0)
}

// A server's file system is really full: a write ends in the middle of a message,
// which no error that is injected into a system call shows.
func TestAFullFileSystem_B48_invariant3_invariant4_invariant7(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := newDisk(h)
	nats, gw, token, first, ix := askedOn(h, d)
	d.fill()
	gw.refused(token, ix.ID, ix.Digest)
	// Whoever starts it again before there is room loses nothing by it.
	nats = d.restart(h, nats)
	gw.refused(token, ix.ID, ix.Digest)
	d.makeRoom()
	d.restart(h, nats)
	gw.goesOn(token, ix.ID, ix.Digest, first)
}

// The all-in-one on a file system that takes nothing ends with the words of what to
// do, says so again when it is started before that is done, and then goes on.
func TestUpOnAFileSystemThatTakesNothing_B48_invariant3_invariant4(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		disk      func(*home) *disk
		harm      func(*disk)
		mend      func(*disk)
		says, too string // when it is started again, too
	}{
		"full":             {newDisk, (*disk).fill, (*disk).makeRoom, "no space left on device", "make room and start again"},
		"turned read-only": {newBlockDisk, (*disk).fail, (*disk).mend, "read-only file system", "server.lock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			d := c.disk(h)
			up, token := d.up(h)
			first := h.ask(long("first")...)
			ix := up.waiting(token, 1)[0]
			first.line(`Waiting for a decision`)
			c.harm(d)
			second := h.ask(long("second")...)
			require.Equal(t, 1, up.wait(), up.output())
			require.Contains(t, up.output(), c.says)
			require.Contains(t, up.output(), "make room and start again")
			second.kill()

			again := d.start(h, "banksman", "up", "--data", h.data, "--listen", "127.0.0.1:0", "--nats-port", "-1")
			more := h.ask(append(long("more"), "--timeout", "50s")...) // it waits for a server
			require.Equal(t, 1, again.wait(), again.output())
			require.Contains(t, again.output(), c.says)
			require.Contains(t, again.output(), c.too)
			more.kill()

			c.mend(d)
			up, token = d.up(h)
			up.goesOn(token, ix.ID, ix.Digest, first)
		})
	}
}

// A file system that is read-only when a server starts: the server ends and says
// why, and everybody hears that it is away.
func TestAReadOnlyFileSystem_B48_invariant3_invariant4(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := newDisk(h)
	nats, gw, token, first, ix := askedOn(h, d)
	require.NoError(t, nats.cmd.Process.Signal(syscall.SIGTERM))
	nats.wait()
	d.run("mount", "-o", "remount,bind,ro", d.dir)
	nats = d.start(h, "nats-server", "-c", filepath.Join(h.data, "nats", "server.conf"))
	require.Equal(t, 1, nats.wait(), nats.output())
	require.Contains(t, nats.output(), "storage directory is not writable")
	asked := h.run(append([]string{"ask", "--timeout", "1s"}, long("second")...)...)
	require.Equal(t, 2, asked.code, asked.stderr)
	require.Empty(t, asked.stdout)
	require.Contains(t, asked.stderr, "no answer from nats://")
	code, body := gw.decide(token, &ix, hitl.VerbAllow)
	require.Equal(t, 503, code, body)
	code, body = gw.call("GET", "/readyz", "", nil)
	require.Equal(t, 503, code)
	require.Contains(t, body, "not connected to NATS")
	d.run("mount", "-o", "remount,bind,rw", d.dir)
	d.startServer(h)
	gw.goesOn(token, ix.ID, ix.Digest, first)
}

// A file system that turns read-only under a running server by an error of its own.
// Files that are open for writing fail, which a read-only mount would not allow.
func TestAFileSystemThatTurnsReadOnly_B48_invariant3_invariant4_invariant7(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := newBlockDisk(h)
	nats, gw, token, first, ix := askedOn(h, d)
	d.fail()
	gw.refused(token, ix.ID, ix.Digest)
	require.NoError(t, nats.cmd.Process.Signal(syscall.SIGTERM))
	nats.wait()
	d.mend()
	d.startServer(h)
	gw.goesOn(token, ix.ID, ix.Digest, first)
}

// A file system that hangs: each write and each flush waits until it goes on. Who
// decides is told that nobody knows, nothing is allowed, and the same answer counts
// once the disk is back. Flushes that are slow and end are injected into the server's
// system calls elsewhere: a slow device of its own needs more of the machine than
// tests may ask for.
func TestAFileSystemThatHangs_B48_invariant1_invariant4_invariant7(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := newBlockDisk(h)
	_, gw, token, first, ix := askedOn(h, d)
	thaw := sync.OnceFunc(func() { d.run("fsfreeze", "--unfreeze", d.dir) })
	d.run("fsfreeze", "--freeze", d.dir)
	t.Cleanup(thaw) // a process that waits for it cannot be killed
	code, body := gw.decide(token, &ix, hitl.VerbAllow)
	require.Equal(t, 503, code, body)
	require.Contains(t, body, "it is unknown whether it counts, and trying again is safe")
	code, body = gw.call("GET", "/readyz", "", nil)
	require.Equal(t, 503, code)
	require.Contains(t, body, "HITL_DECISIONS")
	select {
	case <-first.done:
		require.Fail(t, "something was allowed on an unknown answer", "%s", first.output())
	default:
	}
	thaw()
	gw.goesOn(token, ix.ID, ix.Digest, first)
}
