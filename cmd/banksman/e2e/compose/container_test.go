package compose

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

const patience = 60 * time.Second

// host is a machine without Docker that services of a compose file run on.
//
// What differs from Docker: services share one network, so each has a loopback
// address of its own, which takes the place of 0.0.0.0; limits of processor and
// memory are not set; the file systems hold the programs built from this tree
// (and Debian's Caddy), not what a build of the Dockerfile would give.
type host struct {
	t       *testing.T
	dir     string
	project *types.Project
	ips     map[string]string // by container
	monitor string            // the server's port for its health, of which the file has 8222
}

// programs are the entry points of the images, by target.
var programs = map[string]string{
	"cli": "banksman", "nats": "nats-server", "gateway": "banksman-gateway", "notifier": "banksman-notifier", "agent": "banksman-agent", "proxy": "caddy",
}

func newHost(t *testing.T, p *types.Project) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), project: p, ips: map[string]string{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h.monitor = fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	require.NoError(t, l.Close())
	require.NoError(t, os.Chmod(h.dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(h.dir), 0o755))
	return h
}

// ip is a container's address; a second one of a service has a number behind
// its name.
func (h *host) ip(name string) string {
	if h.ips[name] == "" {
		h.ips[name] = fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()/250%128, os.Getpid()%250+1, len(h.ips)+2)
	}
	return h.ips[name]
}

// volume is a named volume, made with the owner that the images' directories
// have.
func (h *host) volume(name string) string {
	dir := filepath.Join(h.dir, "volumes", name)
	if _, err := os.Stat(dir); err != nil {
		require.NoError(h.t, os.MkdirAll(dir, 0o700))
		require.NoError(h.t, os.Chmod(filepath.Dir(dir), 0o755))
		h.own(dir)
	}
	return dir
}

// own gives a path to the images' user, where that is in our power; a user
// without it runs everything as root of a namespace, who is that user.
func (h *host) own(path string) {
	if os.Geteuid() == 0 {
		require.NoError(h.t, os.Chown(path, 10001, 10001))
	}
}

// container is a service that runs or ran.
type container struct {
	h       *host
	name    string
	service types.ServiceConfig
	cmd     *exec.Cmd
	done    chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func (c *container) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p)
}

func (c *container) output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String()
}

// script mounts the volumes, makes the root read-only, and becomes the program.
func (h *host) script(name string, s types.ServiceConfig) string {
	fs := filepath.Join(h.dir, "roots", name)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	program := programs[target(h.project, s)]
	from := filepath.Join(bin, program)
	if program == "caddy" {
		from = filepath.Join(root, ".cache/caddy/caddy")
	}
	line("set -eu; umask 022")
	line("mkdir -p %[1]s/usr/local/bin %[1]s/etc/ssl/certs %[1]s/dev %[1]s/proc", fs)
	line("cp -L %s %s/usr/local/bin/%s; cp %s/health %s/usr/local/bin/", from, fs, program, bin, fs)
	line("cp /etc/ssl/certs/ca-certificates.crt %s/etc/ssl/certs/ 2>/dev/null || true", fs)
	line("cat > %s/etc/hosts <<E\n127.0.0.1 localhost", fs)
	for n, ip := range h.ips {
		line("%s %s", ip, n)
	}
	line("E\n: > %s/dev/null", fs)
	line("mount --bind %s %s; cd %s", fs, fs, fs) // a mount that can be made read-only
	line("mount --bind /dev/null dev/null; mount --rbind /proc proc")
	if program == "caddy" { // Debian's is linked against its libraries
		for _, dir := range []string{"lib", "lib64", "usr/lib"} {
			line("mkdir -p %[1]s; mount --bind /%[1]s %[1]s; mount -o remount,bind,ro %[1]s", dir)
		}
	}
	for _, v := range s.Volumes {
		src := v.Source
		if v.Type == types.VolumeTypeVolume {
			src = h.volume(v.Source)
		}
		if info, err := os.Stat(src); err == nil && !info.IsDir() {
			line("mkdir -p .%s; : > .%s", path.Dir(v.Target), v.Target)
		} else {
			line("mkdir -p .%s", v.Target)
		}
		line("mount --bind %s .%s", src, v.Target)
		if v.ReadOnly {
			line("mount -o remount,bind,ro .%s", v.Target)
		}
	}
	for _, x := range s.Secrets {
		line("mkdir -p run/secrets; cp %s run/secrets/%s; chmod 444 run/secrets/%s", h.project.Secrets[x.Source].File, x.Source, x.Source)
	}
	for _, m := range s.Tmpfs {
		dir, options, _ := strings.Cut(m, ":")
		line("mkdir -p .%s; mount -t tmpfs -o %s tmpfs .%s", dir, options, dir)
	}
	if s.ReadOnly {
		line("mount -o remount,bind,ro %s", fs)
	}
	chroot := "chroot --userspec=" + s.User
	if os.Geteuid() != 0 {
		chroot = "chroot"
	}
	line("cd /; exec setpriv --no-new-privs %s %s /usr/local/bin/%s \"$@\"", chroot, fs, program)
	return b.String()
}

func target(p *types.Project, s types.ServiceConfig) string {
	if s.Build != nil {
		return s.Build.Target
	}
	for _, other := range p.Services {
		if other.Image == s.Image && other.Build != nil {
			return other.Build.Target
		}
	}
	return ""
}

// start runs a service; name is the container's, which for a second one of a
// service is not the service's. args replace the file's where there are any.
func (h *host) start(name, service string, args ...string) *container {
	h.t.Helper()
	s, ok := h.project.Services[service]
	require.True(h.t, ok, service)
	ip := h.ip(name)
	if len(args) == 0 {
		args = s.Command
	}
	if len(s.Entrypoint) > 0 { // else it is the image's
		args = append(slices.Clone(s.Entrypoint[1:]), args...)
	}
	if service != "init" { // its addresses are another's
		args = replaceAll(args, "0.0.0.0", ip)
	} else {
		args = replaceAll(replaceAll(args, "--host=0.0.0.0", "--host="+h.ip("nats")), "8222", h.monitor)
	}
	c := &container{h: h, name: name, service: s, done: make(chan struct{})}
	unshare := []string{"--mount", "--propagation", "private"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	c.cmd = exec.Command("unshare", append(append(unshare, "--", "sh", "-c", h.script(name, s), "sh"), args...)...)
	c.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}
	if programs[target(h.project, s)] == "banksman" {
		c.cmd.Env = append(c.cmd.Env, "XDG_DATA_HOME=/var/lib")
	}
	if service == "proxy" {
		c.cmd.Env = append(c.cmd.Env, "XDG_DATA_HOME=/data", "XDG_CONFIG_HOME=/data", "BANKSMAN_BIND="+ip, "GODEBUG=netdns=go")
	}
	for k, v := range s.Environment {
		if v != nil {
			text := strings.ReplaceAll(*v, "0.0.0.0", ip)
			if k == "BANKSMAN_AGENT_STATUS" {
				text = strings.ReplaceAll(text, "127.0.0.1", ip)
			}
			c.cmd.Env = append(c.cmd.Env, k+"="+text)
		}
	}
	c.cmd.Stdout, c.cmd.Stderr = c, c
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(h.t, c.cmd.Start())
	go func() {
		_ = c.cmd.Wait() // its state says it
		close(c.done)
	}()
	h.t.Cleanup(func() {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // gone is fine
		<-c.done
		if h.t.Failed() {
			h.t.Logf("output of %s:\n%s", c.name, c.output())
		}
	})
	return c
}

func replaceAll(list []string, old, to string) []string {
	list = slices.Clone(list)
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], old, to)
	}
	return list
}

// once runs a service that ends, which must be well.
func (h *host) once(service string, args ...string) string {
	h.t.Helper()
	c := h.start(service+fmt.Sprint("-", len(h.ips)), service, args...)
	require.Zero(h.t, c.wait(), "%s: %s", service, c.output())
	return c.output()
}

func (c *container) wait() int {
	c.h.t.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		require.Fail(c.h.t, c.name+" did not end", c.output())
	}
	return c.cmd.ProcessState.ExitCode()
}

// stop is "docker compose stop".
func (c *container) stop() {
	c.h.t.Helper()
	require.NoError(c.h.t, c.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(c.h.t, c.wait(), c.output())
}

// healthy waits until the file's own health check says so.
func (c *container) healthy() *container {
	c.h.t.Helper()
	test := c.service.HealthCheck.Test
	require.Equal(c.h.t, "/usr/local/bin/health", test[1])
	url := strings.ReplaceAll(test[2], "8222", c.h.monitor)
	if c.service.Name != "nats" && c.service.Name != "proxy" {
		url = strings.ReplaceAll(url, "127.0.0.1", c.h.ip(c.name))
	}
	var last []byte
	require.Eventually(c.h.t, func() bool {
		select {
		case <-c.done:
			return true
		default:
		}
		ctx, cancel := context.WithTimeout(c.h.t.Context(), 10*time.Second)
		defer cancel()
		var err error
		last, err = exec.CommandContext(ctx, filepath.Join(bin, "health"), url).CombinedOutput()
		return err == nil
	}, patience, 50*time.Millisecond, "%s: %s", c.name, &last)
	select {
	case <-c.done:
		require.Fail(c.h.t, c.name+" has ended", c.output())
	default:
	}
	return c
}
