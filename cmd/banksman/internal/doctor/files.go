package doctor

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/cmd/banksman/internal/plan"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/bus/credential"
	"github.com/banksman/banksman/pkg/metrics"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/services/notifier"
)

// fewBytes is what a large disk may have left before it counts as nearly full.
const fewBytes = 8 << 30

const (
	// checkFiles is what the look at files is called.
	checkFiles = "files"
	// mendPath is the fix where a named file cannot be read.
	mendPath = "name the right file, or make it readable for who runs the service"
)

// files looks at what lies on this machine's disk.
func (p *patient) files() {
	if _, err := os.Stat(p.data); err != nil {
		p.bad(checkFiles, "name the data directory with --data, or start banksman up once", "there is no data directory at %s", p.data)
		return
	}
	var err error
	if p.plan, err = plan.Read(p.data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.bad(checkFiles, "make it readable for you, or put back a copy of it", "%v", err)
	}
	secret, _ := filepath.Glob(p.creds("*.json")) // the pattern is good
	secret = append(secret, natsd.AccountsFile(p.data), natsd.ConfigFile(p.data), plan.File(p.data))
	if p.keyFile != "" {
		secret = append(secret, p.keyFile)
	}
	n := 0
	for _, f := range secret {
		info, err := os.Stat(f)
		if errors.Is(err, fs.ErrNotExist) && f != p.keyFile {
			continue
		}
		if err != nil {
			p.bad(checkFiles, mendPath, "%v", err)
			continue
		}
		n++
		if perm := info.Mode().Perm(); perm&0o077 != 0 {
			p.bad(checkFiles, "chmod 600 "+f, "others can read or write %s (mode %04o), which has secrets", f, perm)
		}
	}
	if n > 0 {
		p.ok(checkFiles, "%d files with secrets were looked at", n)
	}
	store := cmp.Or(p.plan.StoreDir, filepath.Join(filepath.Dir(natsd.ConfigFile(p.data)), "store"))
	free, size := metrics.Room(store)
	switch {
	case size == 0:
		p.skip("disk", "the disk of the server's store cannot be seen from here")
	case free < size/10 && free < fewBytes:
		p.bad("disk", "make room on it, but never delete files in the store directory", "the disk with %s has %d MiB left, less than a tenth of it and than 8 GiB", store, free>>20)
	default:
		p.ok("disk", "%d GiB are left for %s", free>>30, store)
	}
}

// agentCLI looks for what a worker on this machine needs for real sessions.
func (p *patient) agentCLI() {
	const check = "agent CLI"
	complain := p.note // a team's agents run elsewhere, and the demo needs none
	if p.claude != "" || p.keyFile != "" {
		complain = p.bad
	}
	path := p.claude
	if path == "" {
		path = "claude"
	}
	found, err := exec.LookPath(path)
	if err != nil {
		complain(check, "install it (npm install -g @anthropic-ai/claude-code), or name it with --claude; needed where an agent worker runs", "the Claude Code CLI is not found on this machine: %v", err)
		return
	}
	if p.keyFile != "" {
		if raw, err := os.ReadFile(p.keyFile); err != nil || strings.TrimSpace(string(raw)) == "" {
			p.bad(check, "put the API key, alone, into "+p.keyFile, "the file has no key")
			return
		}
		p.ok(check, "%s, with a key from a file", found)
		return
	}
	home, _ := os.UserHomeDir() // "": then it is not there
	dir := os.Getenv("CLAUDE_CONFIG_DIR")
	if dir == "" {
		dir = filepath.Join(home, ".claude")
	}
	_, err = os.Stat(filepath.Join(dir, ".credentials.json"))
	if err != nil && os.Getenv("ANTHROPIC_API_KEY") == "" && os.Getenv("ANTHROPIC_AUTH_TOKEN") == "" {
		complain(check, "run claude once and sign in, or give the worker an API key with -claude-key-file", "%s has neither a login nor a key of this user that can be seen from here", found)
		return
	}
	p.ok(check, "%s, with a login or key", found)
}

// notifier looks at the notifier's own configuration.
func (p *patient) notifier() {
	const check = "channels"
	if p.notify == "" {
		return
	}
	_, err := notifier.LoadConfig(p.notify)
	var path *fs.PathError
	var at *notifier.ConfigError
	fix := "chmod 600 " + p.notify
	if errors.As(err, &at) && at.Field != "" { // it is a file that this one names
		fix = "chmod 600 the file that the message names"
	}
	switch {
	case err == nil:
		p.ok(check, "%s can be read; banksman notify test tries its channels", p.notify)
	case errors.Is(err, notifier.ErrConfigMode):
		p.bad(checkFiles, fix, "others can read or write what has secrets: %v", err)
	case errors.As(err, &path):
		p.bad(checkFiles, mendPath, "%v", err)
	default:
		p.bad(check, "mend the place that the message names; banksman config check checks it again", "%v", err)
	}
}

// identity is a credential that one can connect with.
type identity struct {
	*bus.Credentials
	auth nats.Option
}

// credential reads the file of a role; nil where there is none.
func (p *patient) credential(role bus.Role, name string) *identity {
	file := natsd.CredentialsFile(p.data, role, bus.DefaultTenant, name)
	c, err := bus.LoadCredentials(file)
	var auth nats.Option
	if err == nil {
		auth, err = c.Auth()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, credential.ErrCredentialsMode): // told already
		return nil
	case err != nil:
		p.bad(checkFiles, "put back a copy of it, or remove it and run banksman creds", "%v", err)
		return nil
	}
	if p.nats != "" {
		c.URLs = []string{p.nats}
	}
	return &identity{c, auth}
}
