package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/cmd/banksman/internal/creds"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/wire"
)

// trio is a cluster: three nats-servers and two gateways, processes all.
type trio struct {
	*home
	dirs     [3]string
	nodes    [3]*process
	addrs    [2]string
	gateways []*instance
	token    string
}

func newTrio(t *testing.T) *trio {
	t.Helper()
	c := &trio{home: newHome(t)}
	var clients, routes [3]int
	var urls []string
	for i := range 3 {
		clients[i], routes[i] = freePort(t), freePort(t)
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", clients[i]))
	}
	for i := range 2 {
		c.addrs[i] = fmt.Sprintf("127.0.0.1:%d", freePort(t))
	}
	for i := range 3 {
		c.dirs[i] = filepath.Join(filepath.Dir(c.data), fmt.Sprint("node", i))
		if i > 0 { // the keys are the same everywhere
			require.NoError(t, os.CopyFS(c.dirs[i], os.DirFS(c.dirs[0])))
			files, err := filepath.Glob(filepath.Join(c.dirs[i], "*", "*"))
			require.NoError(t, err)
			for _, f := range files {
				require.NoError(t, os.Chmod(f, 0o600))
			}
		}
		plan := natsd.Plan{
			Dir: c.dirs[i], Port: clients[i], URLs: urls, Durability: natsd.DurabilityRelaxed, StoreDir: c.store(i),
			Owners:  []natsd.Owner{{Name: "agents", Pool: true}},
			Cluster: &natsd.Cluster{Name: "trio", ServerName: fmt.Sprint("node", i), Port: routes[i]},
		}
		for j := range 3 {
			if j != i {
				plan.Cluster.Routes = append(plan.Cluster.Routes, fmt.Sprintf("nats://127.0.0.1:%d", routes[j]))
			}
		}
		require.NoError(t, natsd.Write(plan))
	}
	c.data = c.dirs[0]
	c.startNodes(0, 1, 2)
	c.provision()
	c.startGateways()
	return c
}

func (c *trio) store(i int) string { return filepath.Join(c.dirs[i], "nats", "store") }

func (c *trio) startNodes(which ...int) {
	c.t.Helper()
	for _, i := range which {
		c.nodes[i] = start(c.t, c.env, "nats-server", "-c", natsd.ConfigFile(c.dirs[i]))
	}
	for _, i := range which {
		c.nodes[i].line(`Server is ready`)
	}
}

func (c *trio) provision() {
	c.t.Helper()
	var err error
	require.Eventually(c.t, func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
		defer cancel()
		err = creds.Provision(ctx, c.data, nil, journal.Config{Replicas: 3, Pools: []journal.Pool{{Tenant: bus.DefaultTenant, Pool: "agents"}}})
		return err == nil
	}, patience, 200*time.Millisecond, "%v", err)
}

func (c *trio) startGateways() {
	c.t.Helper()
	c.gateways = nil
	file := filepath.Join(c.t.TempDir(), "token")
	for _, addr := range c.addrs {
		p := start(c.t, c.env, "banksman-gateway", "--creds", c.creds("gateway.json"), "--listen", addr, "--test-login", file, "--login", "--cwd", c.work)
		m := p.line(`(http://127\.0\.0\.1:\d+)/#login=(\S+)`)
		c.gateways = append(c.gateways, &instance{process: p, home: c.home, login: m[0], url: m[1]})
	}
	raw, err := os.ReadFile(file)
	require.NoError(c.t, err)
	c.token = strings.TrimSpace(string(raw))
}

func (c *trio) stopGateways() {
	c.t.Helper()
	for _, g := range c.gateways {
		require.NoError(c.t, g.cmd.Process.Signal(syscall.SIGTERM))
		require.Zero(c.t, g.wait(), g.output())
	}
}

func (c *trio) asker() *bus.Client {
	c.t.Helper()
	id, err := bus.LoadCredentials(c.creds("owner-agents.json"))
	require.NoError(c.t, err)
	client, err := bus.Connect(c.t.Context(), id, bus.Options{})
	require.NoError(c.t, err)
	c.t.Cleanup(client.Close)
	return client
}

func toRun(key string) *hitl.Request {
	return &hitl.Request{
		Key: key, Kind: hitl.KindApproval, SessionID: "s1", Title: key,
		Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"make test"}`)},
	}
}

// list is what waits, nil where no gateway answers.
func (c *trio) list() []wire.Interaction {
	for _, addr := range c.addrs {
		req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://"+addr+"/api/interactions", nil)
		if err != nil {
			return nil
		}
		req.Header.Set("Authorization", "Bearer "+c.token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		var out wire.ListReply
		err = json.NewDecoder(res.Body).Decode(&out)
		_ = res.Body.Close()
		if err == nil && res.StatusCode == 200 {
			return out.Interactions
		}
	}
	return nil
}

func (c *trio) allow(addr string, ix *wire.Interaction) error {
	body := fmt.Sprintf(`{"decision":"allow","digest":%q}`, ix.Digest)
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, "http://"+addr+"/api/interactions/"+ix.Key+"/decision", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	raw, _ := io.ReadAll(res.Body)
	if res.StatusCode != 200 {
		return fmt.Errorf("%s: %s", res.Status, raw)
	}
	return nil
}

// traffic asks and decides without a pause until stop is called. What the asker has
// a decision of is in done, by key.
type traffic struct {
	mu   sync.Mutex
	done map[string]string // key to decision
}

func (f *traffic) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.done)
}

func (f *traffic) copied() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]string{}
	for k, v := range f.done {
		out[k] = v
	}
	return out
}

func (c *trio) load(client *bus.Client, name string) (f *traffic, stop func()) {
	f = &traffic{done: map[string]string{}}
	ctx, cancel := context.WithCancel(c.t.Context())
	var wg sync.WaitGroup
	for lane := range 4 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("%s-%d-%d", name, lane, n)
				a, err := client.Ask(ctx, toRun(key))
				if err != nil {
					continue
				}
				f.mu.Lock()
				f.done[key] = a.Decision.DecisionID
				f.mu.Unlock()
			}
		})
	}
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			list := c.list()
			if list == nil {
				select { // the gateways are away
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
			for i := range list {
				if strings.HasPrefix(list[i].Title, name) {
					_ = c.allow(c.addrs[n%2], &list[i]) // whatever fails is listed again
				}
			}
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	c.t.Cleanup(stop)
	return f, stop
}

// hello is the first frame of the stream of everything, from a cursor on.
func (c *trio) hello(from string) wire.Hello {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.addrs[0]+"/api/events", nil)
	require.NoError(c.t, err)
	req.Header.Set("Authorization", "Bearer "+c.token)
	if from != "" {
		req.Header.Set("Last-Event-ID", from)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(c.t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(c.t, 200, res.StatusCode)
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && strings.Contains(data, `"hello"`) {
			var h wire.Hello
			require.NoError(c.t, json.Unmarshal([]byte(data), &h))
			return h
		}
	}
	require.NoError(c.t, errors.Join(lines.Err(), io.ErrUnexpectedEOF))
	return wire.Hello{}
}

// A cluster is backed up while people are asked: the gateways rest for as long as it
// takes to stop one server, whose store is then copied while the others go on. All
// servers are lost with their disks, and three new ones get the copy. What was decided
// before the copy is decided as it was, what waited waits, and who waited all along
// gets the decision; what came behind the copy is asked again. A page that was further
// than the copy begins anew, also when the record has grown beyond its place.
func TestAClusterIsRestored_B48_B19_invariant1_invariant3_invariant8(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	client := c.asker()
	kept := make(chan *bus.Answer, 1)
	var waits sync.WaitGroup
	t.Cleanup(waits.Wait)
	waits.Go(func() {
		a, err := client.Ask(t.Context(), toRun("kept"))
		if err != nil {
			a = nil
		}
		kept <- a
	})
	load, stop := c.load(client, "load")
	require.Eventually(t, func() bool { return load.count() >= 30 }, patience, 10*time.Millisecond)

	// The backup.
	c.stopGateways()
	before := load.copied()
	require.NoError(t, c.nodes[2].cmd.Process.Signal(syscall.SIGTERM))
	c.nodes[2].wait()
	c.startGateways()
	more := load.count()
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(c.store(2))))
	require.Eventually(t, func() bool { return load.count() >= more+20 }, patience, 10*time.Millisecond, "two servers go on")
	c.startNodes(2)
	far := c.hello("").Cursor
	require.True(t, c.hello(far).Recovered, "a page that comes back goes on")
	stop()
	after := load.copied()

	// The loss, and the way back.
	for _, p := range append(c.nodes[:], c.gateways[0].process, c.gateways[1].process) {
		p.kill()
	}
	for i := range 3 {
		require.NoError(t, os.RemoveAll(c.store(i)))
		require.NoError(t, os.CopyFS(c.store(i), os.DirFS(copied)))
	}
	c.startNodes(0, 1, 2)
	c.provision()
	require.NoError(t, creds.Restored(t.Context(), c.data))
	c.startGateways()

	again := c.asker()
	for key, decision := range before {
		a, err := again.Ask(t.Context(), toRun(key))
		require.NoError(t, err, key)
		require.Equal(t, decision, a.Decision.DecisionID, "%s was decided before the copy", key)
	}
	lost := 0
	for key := range after {
		if before[key] == "" {
			lost++
		}
	}
	require.GreaterOrEqual(t, lost, 20, "something came behind the copy")
	var waiting *wire.Interaction
	require.Eventually(t, func() bool {
		list := c.list()
		for i := range list {
			if list[i].Title == "kept" {
				waiting = &list[i]
			}
		}
		return waiting != nil
	}, patience, 20*time.Millisecond)
	require.NoError(t, c.allow(c.addrs[1], waiting))
	select {
	case a := <-kept:
		require.NotNil(t, a)
		require.Equal(t, hitl.Allowed, a.Decision.Outcome)
	case <-time.After(patience):
		t.Fatal("who waited all along got nothing")
	}
	require.False(t, c.hello(far).Recovered, "what was there is not what is there now")
	next, stop := c.load(again, "next")
	require.Eventually(t, func() bool { return next.count() >= lost+20 }, patience, 10*time.Millisecond)
	stop()
	require.False(t, c.hello(far).Recovered, "nor when the record has come as far again")
	require.True(t, c.hello(c.hello("").Cursor).Recovered)
}
