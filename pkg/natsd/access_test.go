package natsd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
)

// next waits for a message of a subscription.
func next(t *testing.T, sub *nats.Subscription) *nats.Msg {
	t.Helper()
	m, err := sub.NextMsg(patience)
	require.NoError(t, err, sub.Subject)
	return m
}

func (c *client) follow(t *testing.T, subject string) *nats.Subscription {
	t.Helper()
	sub, err := c.SubscribeSync(subject)
	require.NoError(t, err)
	require.NoError(t, c.Flush())
	return sub
}

// mustBeContent requires that the server refused nothing.
func (c *client) mustBeContent(t *testing.T) {
	t.Helper()
	require.NoError(t, c.Flush())
	select {
	case err := <-c.refused:
		t.Fatalf("refused: %v", err)
	default:
	}
}

func TestOwnerSteps(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	owner := n.connect(t, bus.RoleOwner, "t", "pool")
	gw := n.connect(t, bus.RoleGateway, "", "")

	inbox := owner.follow(t, "hitl.inbox.t.pool.*")
	owner.store(t, "hitl.req.t.pool.id1", "request")
	require.Equal(t, "request", string(owner.ask(t, "$JS.API.DIRECT.GET.HITL_REQUESTS.hitl.req.t.pool.id1", "").Data))
	gw.store(t, "hitl.dec.t.pool.id1", "decision")
	require.Equal(t, "decision", string(next(t, inbox).Data))
	require.Equal(t, "decision", string(owner.ask(t, "$JS.API.DIRECT.GET.HITL_DECISIONS.hitl.dec.t.pool.id1", "").Data))
	require.Equal(t, "404", owner.ask(t, "$JS.API.DIRECT.GET.HITL_DECISIONS.hitl.dec.t.pool.id2", "").Header.Get("Status"))
	owner.store(t, "hitl.cxl.t.pool.id1", "withdrawal")
	owner.store(t, "hitl.box.t.pool.id2.req", "request")
	owner.store(t, "hitl.box.t.pool.id2.cxl", "withdrawal")
	require.Equal(t, "request", string(owner.ask(t, "$JS.API.DIRECT.GET.HITL_MAILBOX.hitl.box.t.pool.id2.req", "").Data))
	owner.store(t, "hitl.ack.t.pool.id1.delivered", "receipt")
	owner.store(t, "hitl.evt.t.pool.s1", "event")

	// A session is claimed once; who came second reads whose it is.
	claim := func(body string) string {
		m := nats.NewMsg("hitl.ses.t.pool.s1")
		m.Header.Set("Nats-Expected-Last-Subject-Sequence", "0")
		m.Data = []byte(body)
		reply, err := owner.RequestMsg(m, patience)
		require.NoError(t, err)
		return string(reply.Data)
	}
	require.Contains(t, claim("mine"), `"seq":`)
	require.Contains(t, claim("other"), `"err_code":10071`)
	require.Equal(t, "mine", string(owner.ask(t, "$JS.API.DIRECT.GET.HITL_TRANSCRIPTS.hitl.ses.t.pool.s1", "").Data))

	gw.store(t, "hitl.work.t.pool", "work")
	work := owner.ask(t, "$JS.API.CONSUMER.MSG.NEXT.HITL_WORK.t-pool", `{"batch":1,"expires":5000000000}`)
	require.Equal(t, "work", string(work.Data))
	require.True(t, strings.HasPrefix(work.Reply, "$JS.ACK.HITL_WORK.t-pool."), work.Reply)
	owner.ask(t, work.Reply, "+ACK")
	require.Zero(t, streamState(t, n, "HITL_WORK").Msgs)

	live, beat := gw.follow(t, "hitl.live.*.*.*"), gw.follow(t, "hitl.beat.*.*.*")
	require.NoError(t, owner.Publish("hitl.live.t.pool.s1", []byte("delta")))
	require.NoError(t, owner.Publish("hitl.beat.t.pool.w1", []byte("beat")))
	require.Equal(t, "hitl.live.t.pool.s1", next(t, live).Subject)
	require.Equal(t, "hitl.beat.t.pool.w1", next(t, beat).Subject)

	commands := owner.follow(t, "hitl.cmd.t.pool.*")
	reply := gw.follow(t, gw.NewInbox())
	require.NoError(t, gw.PublishRequest("hitl.cmd.t.pool.s1", reply.Subject, []byte("stop")))
	command := next(t, commands)
	require.True(t, strings.HasPrefix(command.Reply, "_R_."), command.Reply)
	require.NoError(t, command.Respond([]byte("stopped")))
	require.Equal(t, "stopped", string(next(t, reply).Data))

	owner.mustBeContent(t)
	gw.mustBeContent(t)
}

func streamState(t *testing.T, n *node, stream string) jetstream.StreamState {
	t.Helper()
	s, err := n.connect(t, bus.RoleProvisioner, "", "").js(t).Stream(t.Context(), stream)
	require.NoError(t, err)
	return s.CachedInfo().State
}

func TestCallerGetsAReplyAfterThreeSeconds(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	gw := n.connect(t, bus.RoleGateway, "", "")
	calls := gw.follow(t, "hitl.svc.*.*.*")
	for _, c := range []struct {
		role bus.Role
		name string
	}{{bus.RoleCaller, "ci"}, {bus.RoleOwner, "cli"}} {
		caller := n.connect(t, c.role, "t", c.name)
		feed := caller.follow(t, "hitl.feed."+c.name+".t")
		reply := caller.follow(t, caller.NewInbox())
		began := time.Now()
		require.NoError(t, caller.PublishRequest("hitl.svc.t."+c.name+".ask", reply.Subject, []byte("question")))
		call := next(t, calls)
		require.Equal(t, "hitl.svc.t."+c.name+".ask", call.Subject)
		require.True(t, strings.HasPrefix(call.Reply, "_R_."), call.Reply)
		late := time.AfterFunc(3*time.Second, func() { _ = call.Respond([]byte("answer")) })
		defer late.Stop()
		require.Equal(t, "answer", string(next(t, reply).Data))
		require.GreaterOrEqual(t, time.Since(began), 3*time.Second)

		require.NoError(t, gw.Publish("hitl.feed."+c.name+".t", []byte("summary")))
		require.Equal(t, "summary", string(next(t, feed).Data))
		caller.mustBeContent(t)
	}
	gw.mustBeContent(t)
}

func TestCallerLearnsThatNoGatewayListens(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	_, err := n.connect(t, bus.RoleCaller, "t", "ci").Request("hitl.svc.t.ci.list", nil, patience)
	require.ErrorIs(t, err, nats.ErrNoResponders)
}

func TestNotifierSteps(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	notifier := n.connect(t, bus.RoleNotifier, "t", "")
	gw := n.connect(t, bus.RoleGateway, "", "")
	gw.store(t, "hitl.ixe.t.pool.s1.id1.open", "open")
	gw.store(t, "hitl.ixe.u.pool.s1.id1.open", "of another tenant")

	event := notifier.ask(t, "$JS.API.CONSUMER.MSG.NEXT.HITL_EVENTS.notifier-t", `{"batch":1,"expires":5000000000}`)
	require.Equal(t, "open", string(event.Data))
	notifier.ask(t, event.Reply, "+ACK")
	rest := notifier.ask(t, "$JS.API.CONSUMER.MSG.NEXT.HITL_EVENTS.notifier-t", `{"batch":1,"no_wait":true}`)
	require.Equal(t, "404", rest.Header.Get("Status"), "nothing is left for this tenant")

	calls := gw.follow(t, "hitl.svc.t.notifier.*")
	reply := notifier.follow(t, notifier.NewInbox())
	require.NoError(t, notifier.PublishRequest("hitl.svc.t.notifier.get", reply.Subject, nil))
	require.NoError(t, next(t, calls).Respond([]byte("interaction")))
	require.Equal(t, "interaction", string(next(t, reply).Data))

	// What gateways ask of the ledger, and what it asks of the callers of its tenant.
	asked := notifier.follow(t, "hitl.alerts.t.explain")
	told := gw.follow(t, gw.NewInbox())
	require.NoError(t, gw.PublishRequest("hitl.alerts.t.explain", told.Subject, []byte("who")))
	question := next(t, asked)
	require.True(t, strings.HasPrefix(question.Reply, "_R_."), question.Reply)
	require.NoError(t, question.Respond([]byte("ada")))
	require.Equal(t, "ada", string(next(t, told).Data))
	_, err := gw.Request("hitl.alerts.u.explain", nil, patience)
	require.ErrorIs(t, err, nats.ErrNoResponders, "another tenant's is another notifier's")
	caller := n.connect(t, bus.RoleCaller, "t", "ci")
	_, err = notifier.Request("hitl.decider.t.ci", nil, patience)
	require.ErrorIs(t, err, nats.ErrNoResponders)
	decides := caller.follow(t, "hitl.decider.t.ci")
	require.NoError(t, notifier.PublishRequest("hitl.decider.t.ci", reply.Subject, []byte("may it?")))
	question = next(t, decides)
	require.True(t, strings.HasPrefix(question.Reply, "_R_."), question.Reply)
	require.NoError(t, question.Respond([]byte("no")))
	require.Equal(t, "no", string(next(t, reply).Data))
	caller.mustBeContent(t)
	gw.mustBeContent(t)

	// The ledger is its own, not a bucket of CORE.
	ledger, err := notifier.js(t).CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "ledger", TTL: time.Hour})
	require.NoError(t, err)
	_, err = ledger.Create(t.Context(), "id1", []byte("sent"))
	require.NoError(t, err)
	_, err = ledger.Create(t.Context(), "id1", []byte("sent"))
	require.ErrorIs(t, err, jetstream.ErrKeyExists)
	_, err = n.connect(t, bus.RoleProvisioner, "", "").js(t).Stream(t.Context(), "KV_ledger")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	notifier.mustBeContent(t)
}

func TestGatewaySteps(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	gw := n.connect(t, bus.RoleGateway, "", "")
	ctx, js := t.Context(), gw.js(t)

	// Buckets: compare and set, read, watch.
	people, err := js.KeyValue(ctx, "hitl_people")
	require.NoError(t, err)
	_, err = people.Create(ctx, "ada", []byte("1"))
	require.NoError(t, err)
	_, err = people.Update(ctx, "ada", []byte("2"), 0)
	require.Error(t, err)
	watch, err := people.WatchAll(ctx)
	require.NoError(t, err)
	require.Equal(t, "ada", (<-watch.Updates()).Key())
	require.Nil(t, <-watch.Updates(), "the end of what was stored")
	_, err = people.Put(ctx, "bob", []byte("1"))
	require.NoError(t, err)
	require.Equal(t, "bob", (<-watch.Updates()).Key())
	require.NoError(t, watch.Stop())
	keys, err := people.Keys(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"ada", "bob"}, keys)

	// What it writes, and on behalf of callers of the service API.
	for _, subject := range []string{
		"hitl.req.t.ci.id1", "hitl.cxl.t.ci.id1", "hitl.ack.t.ci.id1.delivered", "hitl.dec.t.ci.id1",
		"hitl.ixe.t.ci.s1.id1.open", "hitl.sgw.t.ci.s1", "hitl.work.t.pool",
	} {
		gw.store(t, subject, "body")
	}

	// Shared durable, ordered consumer, raw reads, deleting a settled request.
	durable, err := js.CreateOrUpdateConsumer(ctx, "HITL_REQUESTS", jetstream.ConsumerConfig{Durable: "intake", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	m, err := durable.Next(jetstream.FetchMaxWait(patience))
	require.NoError(t, err)
	require.Equal(t, "hitl.req.t.ci.id1", m.Subject())
	require.NoError(t, m.DoubleAck(ctx))
	meta, err := m.Metadata()
	require.NoError(t, err)
	ordered, err := js.OrderedConsumer(ctx, "HITL_EVENTS", jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	event, err := ordered.Next(jetstream.FetchMaxWait(patience))
	require.NoError(t, err)
	require.Equal(t, "hitl.ixe.t.ci.s1.id1.open", event.Subject())
	requests, err := js.Stream(ctx, "HITL_REQUESTS")
	require.NoError(t, err)
	raw := gw.ask(t, "$JS.API.STREAM.MSG.GET.HITL_REQUESTS", fmt.Sprintf(`{"seq":%d}`, meta.Sequence.Stream))
	require.Contains(t, string(raw.Data), `"subject":"hitl.req.t.ci.id1"`)
	require.NoError(t, requests.DeleteMsg(ctx, meta.Sequence.Stream))
	_, err = js.AccountInfo(ctx)
	require.NoError(t, err)
	require.NoError(t, js.DeleteConsumer(ctx, "HITL_REQUESTS", "intake"))

	wake := gw.follow(t, "hitl.inbox.*.*.*")
	gw.store(t, "hitl.dec.t.ci.id2", "decision")
	require.Equal(t, "hitl.inbox.t.ci.id2", next(t, wake).Subject)
	gw.mustBeContent(t)
}

// Where a pull crosses accounts, the server takes a message without headers and
// body for the end of its replies. Askers can store such a message, so gateways
// live where the streams are.
func TestGatewayReadsPastEmptyMessages(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	owner := n.connect(t, bus.RoleOwner, "t", "pool")
	gw := n.connect(t, bus.RoleGateway, "", "")
	const total = 200
	for i := range total {
		body := ""
		if i%3 == 1 {
			body = "text"
		}
		owner.store(t, "hitl.evt.t.pool.s1", body)
	}
	_, err := gw.js(t).CreateConsumer(t.Context(), "HITL_TRANSCRIPTS", jetstream.ConsumerConfig{
		// Far beyond the limit below: a lost message would not come again in time.
		Durable: "reader", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour,
	})
	require.NoError(t, err)
	replies := gw.follow(t, gw.NewInbox())
	require.NoError(t, gw.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.HITL_TRANSCRIPTS.reader", replies.Subject, fmt.Appendf(nil, `{"batch":%d}`, total)))
	for i := range total {
		m := next(t, replies)
		meta, err := m.Metadata()
		require.NoError(t, err)
		require.EqualValues(t, i+1, meta.Sequence.Stream)
		require.NoError(t, m.Ack())
	}
	gw.mustBeContent(t)
}

// The provisioner watches CORE; what came from another account it sees when a gateway
// has passed it on.
func TestProvisionerSteps(t *testing.T) {
	t.Parallel()
	n := newNode(t) // it made the streams and consumers
	prov := n.connect(t, bus.RoleProvisioner, "", "")
	gw := n.connect(t, bus.RoleGateway, "", "")
	seen := prov.follow(t, "hitl.>")
	n.connect(t, bus.RoleOwner, "t", "pool").store(t, "hitl.req.t.pool.id1", "request")
	require.Equal(t, "hitl.req.t.pool.id1", next(t, seen).Subject)
	gw.store(t, "hitl.dec.t.pool.id1", "decision")
	require.Equal(t, "hitl.dec.t.pool.id1", next(t, seen).Subject)
	require.Equal(t, "hitl.inbox.t.pool.id1", next(t, seen).Subject)

	ctx, js := t.Context(), prov.js(t)
	events, err := js.UpdateStream(ctx, jetstream.StreamConfig{
		Name: "HITL_EVENTS", Subjects: []string{"hitl.ixe.>", "hitl.sgw.>"}, DenyDelete: true, AllowDirect: true, MaxBytes: 32 << 20,
	})
	require.NoError(t, err)
	require.NoError(t, events.Purge(ctx))
	require.NoError(t, js.DeleteConsumer(ctx, "HITL_EVENTS", "notifier-u"))
	require.NoError(t, js.DeleteStream(ctx, "HITL_EVENTS"))
	prov.store(t, "hitl.work.t.pool", "work")
	prov.mustBeContent(t)
}
