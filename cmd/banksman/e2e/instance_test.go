package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitltest/modelapi"
	"github.com/banksman/banksman/pkg/wire"
)

// home is one person's machine: data directory, working directory, a clean
// environment and, where needed, a model API.
type home struct {
	t    *testing.T
	data string
	work string
	env  []string
	api  *modelapi.Server // nil without a script
}

func newHome(t *testing.T, script ...modelapi.Step) *home {
	t.Helper()
	root := t.TempDir()
	h := &home{t: t, data: filepath.Join(root, "data"), work: filepath.Join(root, "work")}
	require.NoError(t, os.MkdirAll(h.work, 0o755))
	path := bin + ":" + os.Getenv("PATH")
	if script == nil {
		h.env = []string{"PATH=" + path, "HOME=" + filepath.Join(root, "home"), "LANG=C.UTF-8"}
	} else {
		cli := modelapi.RequireCLI(t)
		h.api = modelapi.New(t, script...)
		h.env = h.api.Env(filepath.Dir(cli)+":"+path, filepath.Join(root, "home"))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(root, "home"), 0o755))
	return h
}

// instance is a running "banksman up".
type instance struct {
	*process
	home  *home
	login string // the one-use address
	url   string
}

// up starts the product with the command of the README.
func (h *home) up(args ...string) *instance {
	h.t.Helper()
	args = append([]string{"up", "--data", h.data, "--listen", "127.0.0.1:0", "--nats-port", "-1"}, args...)
	p := start(h.t, h.env, "banksman", args...)
	m := p.line(`(http://127\.0\.0\.1:\d+)/#login=(\S+)`)
	return &instance{process: p, home: h, login: m[0], url: m[1]}
}

// run runs a command of the CLI on this instance's data.
func (h *home) run(args ...string) result {
	h.t.Helper()
	return command(h.t, h.env, "", "banksman", append(args, "--data", h.data)...)
}

// ask starts "banksman ask" in the background.
func (h *home) ask(args ...string) *process {
	h.t.Helper()
	return start(h.t, h.env, "banksman", append([]string{"ask", "--data", h.data}, args...)...)
}

// askJSON is ask with the request's fields on standard input.
func (h *home) askJSON(fields string) *process {
	h.t.Helper()
	return startWith(h.t, h.env, fields, "banksman", "ask", "--json", "--data", h.data)
}

// pending is what "banksman pending --json" prints.
func (h *home) pending() []wire.Interaction {
	h.t.Helper()
	r := h.run("pending", "--json")
	require.Zero(h.t, r.code, r.stderr)
	var list []wire.Interaction
	require.NoError(h.t, json.Unmarshal([]byte(r.stdout), &list))
	return list
}

// file is a path below the working directory.
func (h *home) file(name string) string { return filepath.Join(h.work, name) }

// served waits until the model API has served the step of that name.
func (h *home) served(step string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		return slices.ContainsFunc(h.api.Requests(), func(r *modelapi.Request) bool { return r.Step == step })
	}, patience, 50*time.Millisecond, "the model was never asked for %q", step)
}

// call calls the gateway as a browser's script would.
func (i *instance) call(method, path, token string, body any) (int, string) {
	i.t.Helper()
	var r io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		require.NoError(i.t, err)
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(i.t.Context(), method, i.url+path, r)
	require.NoError(i.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(i.t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	require.NoError(i.t, err)
	return res.StatusCode, string(raw)
}

// session starts a Claude Code session in the browser's form.
func (p *page) session(cwd, prompt string) {
	p.t.Helper()
	p.click(testID("new-session"))
	p.fill(testID("start-prompt"), prompt)
	p.replace(testID("start-cwd"), cwd)
	p.runtime("claude")
	p.click(testID("start-submit"))
}

// runtime chooses one once a worker has told of it, which may be a moment after the page.
func (p *page) runtime(name string) {
	p.t.Helper()
	p.holds(fmt.Sprintf(`[...document.querySelectorAll(%q)].some(o => o.value === %q)`, testID("start-runtime")+" option", name))
	p.choose(testID("start-runtime"), name)
}

// replace sets a text field's whole content, as typing over a selection does.
func (p *page) replace(sel, text string) {
	p.t.Helper()
	p.see(sel)
	p.holds(`(() => { const e = document.querySelector(` + quote(sel) + `); e.focus(); e.select(); return true; })()`)
	p.fill(sel, text)
}

func quote(s string) string {
	raw, _ := json.Marshal(s) // a string always encodes
	return string(raw)
}

// lines returns the lines of a file, none where it is missing.
func lines(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}
