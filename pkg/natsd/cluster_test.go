package natsd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/natsd"
)

// Three nodes, every stream on all of them; the clients sit on different nodes.
func TestClusterServesTheSameAccounts(t *testing.T) {
	t.Parallel()
	const nodes = 3
	var ports, clients [nodes]int
	for i := range nodes {
		var err error
		ports[i], err = natsdFreePort()
		require.NoError(t, err)
		clients[i], err = natsdFreePort()
		require.NoError(t, err)
	}
	root := t.TempDir()
	dirs := [nodes]string{}
	for i := range nodes {
		dirs[i] = filepath.Join(root, fmt.Sprintf("n%d", i))
		if i > 0 {
			// The keys travel; the plan is written again for the node.
			require.NoError(t, os.MkdirAll(filepath.Join(dirs[i], "nats"), 0o700))
			require.NoError(t, os.CopyFS(filepath.Join(dirs[i], "creds"), os.DirFS(filepath.Join(dirs[0], "creds"))))
			raw, err := os.ReadFile(filepath.Join(dirs[0], "nats", "plan.json"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dirs[i], "nats", "plan.json"), raw, 0o600))
			creds, err := filepath.Glob(filepath.Join(dirs[i], "creds", "*"))
			require.NoError(t, err)
			for _, c := range creds {
				require.NoError(t, os.Chmod(c, 0o600))
			}
		}
		plan := testPlan(dirs[i])
		plan.Port = clients[i]
		plan.Cluster = &natsd.Cluster{
			Name: "banksman", ServerName: fmt.Sprintf("n%d", i), Port: ports[i], User: "node", Password: `pa"ss\`,
		}
		for j := range nodes {
			if j != i {
				plan.Cluster.Routes = append(plan.Cluster.Routes, fmt.Sprintf("nats://node:pa%%22ss%%5C@127.0.0.1:%d", ports[j]))
			}
		}
		require.NoError(t, natsd.Write(plan))
		opts, err := server.ProcessConfigFile(natsd.ConfigFile(dirs[i]))
		require.NoError(t, err)
		require.Equal(t, "banksman", opts.Cluster.Name)
		require.Equal(t, fmt.Sprintf("n%d", i), opts.ServerName)
		require.Len(t, opts.Routes, nodes-1)
	}
	accounts, err := os.ReadFile(filepath.Join(dirs[0], "nats", "accounts.conf"))
	require.NoError(t, err)
	for i := range nodes {
		same, err := os.ReadFile(filepath.Join(dirs[i], "nats", "accounts.conf"))
		require.NoError(t, err)
		require.Equal(t, string(accounts), string(same))
		start(t, dirs[i])
	}

	at := func(i int, role bus.Role, tenant, name string) *client {
		return (&node{dir: dirs[i]}).connect(t, role, tenant, name)
	}
	js := at(0, bus.RoleProvisioner, "", "").js(t)
	require.Eventually(t, func() bool {
		info, err := js.AccountInfo(t.Context())
		return err == nil && info != nil
	}, patience, 50*time.Millisecond)
	require.Eventually(t, func() bool {
		_, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "PROBE", Subjects: []string{"probe"}, Replicas: nodes})
		return err == nil
	}, patience, 200*time.Millisecond, "the nodes find each other")
	provision(t, js, nodes)
	passOn(t, at(0, bus.RoleGateway, "", ""))

	for i := range nodes {
		owner, gw := at(i, bus.RoleOwner, "t", "pool"), at((i+1)%nodes, bus.RoleGateway, "", "")
		id := fmt.Sprintf("id%d", i)
		inbox := owner.follow(t, "hitl.inbox.t.pool."+id)
		owner.store(t, "hitl.req.t.pool."+id, "request")
		gw.store(t, "hitl.dec.t.pool."+id, "decision")
		require.Equal(t, "decision", string(next(t, inbox).Data))
		require.Eventually(t, func() bool { // a follower may be a moment behind
			m, err := owner.Request(getDecision+"t.pool."+id, nil, patience)
			return err == nil && string(m.Data) == "decision"
		}, patience, 10*time.Millisecond)
		gw.store(t, "hitl.work.t.pool", "work")
		work := owner.ask(t, pullWork+"t-pool", `{"batch":1,"expires":10000000000}`)
		require.Equal(t, "work", string(work.Data))
		owner.ask(t, work.Reply, "+ACK")

		gw.store(t, "hitl.ixe.t.pool.s1."+id+".open", "open")
		var ordered jetstream.Consumer
		require.EventuallyWithT(t, func(c *assert.CollectT) { // the cluster may be busy with its elections
			var err error
			ordered, err = gw.js(t).OrderedConsumer(t.Context(), "HITL_EVENTS", jetstream.OrderedConsumerConfig{})
			require.NoError(c, err)
		}, 3*patience, 10*time.Millisecond)
		event, err := ordered.Next(jetstream.FetchMaxWait(patience))
		require.NoError(t, err)
		require.Equal(t, "hitl.ixe.t.pool.s1.id0.open", event.Subject())
		people, err := gw.js(t).KeyValue(t.Context(), "hitl_people")
		require.NoError(t, err)
		_, err = people.Put(t.Context(), id, []byte("x"))
		require.NoError(t, err)
		watch, err := people.Watch(t.Context(), id)
		require.NoError(t, err)
		entry := <-watch.Updates()
		if entry == nil { // the watching node was a moment behind
			entry = <-watch.Updates()
		}
		require.Equal(t, id, entry.Key())
		require.NoError(t, watch.Stop())

		caller := at((i+2)%nodes, bus.RoleCaller, "t", "ci")
		calls := gw.follow(t, "hitl.svc.*.*.*")
		reply := caller.follow(t, caller.NewInbox())
		require.Eventually(t, func() bool { // interest spreads from node to node
			if err := caller.PublishRequest("hitl.svc.t.ci.get", reply.Subject, nil); err != nil {
				return false
			}
			m, err := calls.NextMsg(200 * time.Millisecond)
			return err == nil && m.Respond([]byte("answer")) == nil
		}, patience, 10*time.Millisecond)
		require.Eventually(t, func() bool {
			m, err := reply.NextMsg(patience)
			return err == nil && string(m.Data) == "answer"
		}, patience, time.Millisecond)
		require.NoError(t, calls.Unsubscribe())
		owner.mustBeContent(t)
		gw.mustBeContent(t)
	}
	t.Run("D4-05 a session has one worker at a time", func(t *testing.T) { oneWorkerAtATime(t, dirs[:], js) })
}

// oneWorkerAtATime passes a session from node to node. What its worker stores is
// there once and in order, and nothing of the one before comes behind its claim.
func oneWorkerAtATime(t *testing.T, dirs []string, js jetstream.JetStream) {
	event := func(text string) hitl.Event {
		return hitl.Event{Type: hitl.EventText, Data: []byte(`{"text":"` + text + `"}`)}
	}
	var want []string
	var before *bus.Hold
	for gen := 1; gen <= 6; gen++ {
		creds, err := bus.LoadCredentials(natsd.CredentialsFile(dirs[gen%len(dirs)], bus.RoleOwner, "t", "pool"))
		require.NoError(t, err)
		c, err := bus.Connect(t.Context(), creds, bus.Options{})
		require.NoError(t, err)
		defer c.Close()
		worker := fmt.Sprint("w", gen)
		st := &hitl.SessionState{SessionID: "passed", Worker: worker, Generation: gen, State: hitl.StateUserTurn}
		hold, err := c.Claim(t.Context(), st)
		require.NoError(t, err)
		want = append(want, worker)
		for i := range 20 {
			if before != nil && i%5 == 0 {
				require.ErrorIs(t, before.Event(t.Context(), event("late")), bus.ErrStale)
				require.ErrorIs(t, before.State(t.Context(), st), bus.ErrStale)
			}
			text := fmt.Sprint(worker, " says ", i)
			require.NoError(t, hold.Event(t.Context(), event(text)))
			want = append(want, text)
		}
		before = hold
	}
	stream, err := js.Stream(t.Context(), "HITL_TRANSCRIPTS")
	require.NoError(t, err)
	require.EqualValues(t, len(want), stream.CachedInfo().State.LastSeq)
	for i, w := range want {
		m, err := stream.GetMsg(t.Context(), uint64(i+1))
		require.NoError(t, err)
		var told struct {
			Worker string
			Data   struct{ Text string }
		}
		require.NoError(t, json.Unmarshal(m.Data, &told))
		require.Equal(t, w, told.Worker+told.Data.Text)
	}
}
