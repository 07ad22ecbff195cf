package natsd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
)

// picture is everything CORE holds: configuration, messages and consumers.
func picture(t *testing.T, js jetstream.JetStream) string {
	t.Helper()
	var all []any
	streams := js.ListStreams(t.Context())
	for info := range streams.Info() {
		all = append(all, info.Config, info.State)
	}
	require.NoError(t, streams.Err())
	require.NotEmpty(t, all)
	text, err := json.MarshalIndent(all, "", " ")
	require.NoError(t, err)
	return string(text)
}

// barrier returns when what was sent before has taken effect: each step goes
// through a queue that the forgery would have gone through, in that order, and
// has been answered.
func barrier(steps ...func()) {
	for range 3 {
		for _, step := range steps {
			step()
		}
	}
}

const (
	getDecision = "$JS.API.DIRECT.GET.HITL_DECISIONS.hitl.dec."
	getRequest  = "$JS.API.DIRECT.GET.HITL_REQUESTS.hitl.req."
	pullWork    = "$JS.API.CONSUMER.MSG.NEXT.HITL_WORK."
	pullEvents  = "$JS.API.CONSUMER.MSG.NEXT.HITL_EVENTS."
)

// The server says no to each of these at once, and nothing is stored.
func TestB56ForbiddenPublishIsRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	prov := n.connect(t, bus.RoleProvisioner, "", "").js(t)
	gw := n.connect(t, bus.RoleGateway, "", "")
	gw.store(t, "hitl.dec.u.pool.id1", "decision of another tenant")
	gw.store(t, "hitl.dec.t.cli.id1", "decision of another owner")
	gw.store(t, "hitl.work.u.pool", "work of another pool")
	before := picture(t, prov)

	api := []string{
		"$JS.API.STREAM.CREATE.EVIL", "$JS.API.STREAM.UPDATE.HITL_DECISIONS", "$JS.API.STREAM.DELETE.HITL_DECISIONS",
		"$JS.API.STREAM.PURGE.HITL_EVENTS", "$JS.API.STREAM.RESTORE.EVIL", "$JS.API.STREAM.SNAPSHOT.HITL_DECISIONS",
	}
	read := []string{
		"$JS.API.STREAM.INFO.HITL_DECISIONS", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.MSG.GET.HITL_DECISIONS",
		"$JS.API.DIRECT.GET.HITL_DECISIONS", "$JS.API.STREAM.MSG.DELETE.HITL_REQUESTS",
		"$JS.API.CONSUMER.CREATE.HITL_DECISIONS", "$JS.API.CONSUMER.CREATE.HITL_EVENTS.x.hitl.ixe.>",
		"$JS.API.CONSUMER.DURABLE.CREATE.HITL_WORK.x", "$JS.API.CONSUMER.DELETE.HITL_WORK.t-pool", "$JS.API.CONSUMER.INFO.HITL_WORK.t-pool",
	}
	for _, role := range []struct {
		who          string
		role         bus.Role
		tenant, name string
		subjects     []string
	}{
		{"owner", bus.RoleOwner, "t", "pool", append(append([]string{
			"hitl.dec.t.pool.id1", "hitl.ixe.t.pool.s1.id1.open", "hitl.ixe.t.pool.s1.id1.closed", "hitl.sgw.t.pool.s1",
			"hitl.inbox.t.pool.id1", "hitl.seen.t.pool.id1", "hitl.feed.pool.t", "hitl.work.t.pool", "hitl.cmd.t.pool.s1",
			"hitl.req.t.cli.id1", "hitl.cxl.t.cli.id1", "hitl.ack.t.cli.id1.applied", "hitl.evt.t.cli.s1", "hitl.ses.t.cli.s1",
			"hitl.live.t.cli.s1", "hitl.beat.t.cli.w1",
			"hitl.req.u.pool.id1", "hitl.cxl.u.pool.id1", "hitl.ack.u.pool.id1.applied", "hitl.evt.u.pool.s1", "hitl.ses.u.pool.s1",
			"hitl.live.u.pool.s1", "hitl.beat.u.pool.w1",
			"hitl.say.evt.t.pool.s1", "hitl.say.ses.t.pool.s1", "hitl.say.ack.t.pool.id1.applied", "hitl.say.dec.t.pool.id1",
			"hitl.req.t.pool.id1.more", "hitl.req.t.pool",
			"hitl.svc.t.pool.decide", "hitl.svc.t.cli.decide", "hitl.svc.t.notifier.decide",
			getDecision + "t.cli.id1", getDecision + "u.pool.id1", getRequest + "t.cli.id1", getRequest + "u.pool.id1",
			pullWork + "u-pool", "$JS.ACK.HITL_WORK.u-pool.1.1.1.1.1", pullEvents + "notifier-t",
			"$KV.hitl_people.ada", "$SYS.REQ.SERVER.PING",
		}, api...), read...)},
		{"owner that calls", bus.RoleOwner, "t", "cli", []string{
			"hitl.dec.t.cli.id1", "hitl.svc.t.ci.decide", "hitl.svc.u.cli.decide", "hitl.svc.t.cli.decide.more", pullWork + "t-pool",
		}},
		{"caller", bus.RoleCaller, "t", "ci", append(append([]string{
			"hitl.dec.t.ci.id1", "hitl.req.t.ci.id1", "hitl.svc.t.cli.ask", "hitl.svc.u.ci.ask", "hitl.feed.ci.t", "$KV.hitl_people.ada",
			"hitl.decider.t.ci", "hitl.alerts.t.explain",
		}, api...), read...)},
		{"notifier", bus.RoleNotifier, "t", "", []string{
			"hitl.dec.t.pool.id1", "hitl.req.t.pool.id1", "hitl.ixe.t.pool.s1.id1.closed", "hitl.svc.t.cli.decide", "hitl.svc.u.notifier.get",
			"hitl.decider.t.cli", "hitl.decider.u.ci", "hitl.alerts.t.explain",
		}},
		{"gateway", bus.RoleGateway, "", "", append(append([]string{
			"hitl.say.evt.t.pool.s1", "hitl.say.ses.t.pool.s1", "hitl.svc.t.cli.decide", "hitl.decider.t.ci",
			"$JS.API.STREAM.MSG.DELETE.HITL_DECISIONS", "$JS.API.STREAM.MSG.DELETE.HITL_EVENTS", "$JS.API.STREAM.MSG.DELETE.HITL_TRANSCRIPTS", "$JS.API.STREAM.PEER.REMOVE.HITL_DECISIONS",
		}, api...), "$JS.API.CONSUMER.PAUSE.HITL_WORK.t-pool")},
	} {
		t.Run("B-56 "+role.who, func(t *testing.T) {
			c := n.connect(t, role.role, role.tenant, role.name)
			for _, subject := range role.subjects {
				require.NoError(t, c.PublishRequest(subject, c.NewInbox(), []byte(`{}`)))
				c.mustRefuse(t, "Publish", subject)
			}
		})
	}
	require.Equal(t, before, picture(t, prov))
}

func TestB56ForbiddenSubscribeIsRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for _, role := range []struct {
		who          string
		role         bus.Role
		tenant, name string
		subjects     []string
	}{
		{"owner", bus.RoleOwner, "t", "pool", []string{
			">", "hitl.>", "hitl.inbox.t.cli.*", "hitl.inbox.t.*.*", "hitl.inbox.u.pool.*", "hitl.cmd.t.cli.*", "hitl.cmd.u.pool.*",
			"hitl.dec.t.pool.*", "hitl.req.t.pool.*", "hitl.live.t.pool.*", "hitl.feed.*.*", "$JS.>", "$SYS.>", "_R_.>",
			"hitl.decider.t.pool", "hitl.alerts.t.explain",
		}},
		{"caller", bus.RoleCaller, "t", "ci", []string{">", "hitl.feed.cli.t", "hitl.feed.ci.u", "hitl.svc.t.ci.*", "hitl.inbox.t.ci.*", "hitl.decider.t.cli", "hitl.decider.t.*"}},
		{"notifier", bus.RoleNotifier, "t", "", []string{">", "hitl.ixe.>", "hitl.inbox.>", "hitl.svc.>", "hitl.alerts.u.explain", "hitl.decider.t.ci"}},
		{"gateway", bus.RoleGateway, "", "", []string{">", "hitl.>", "hitl.cmd.t.pool.*", "$JS.API.>", "_R_.>"}},
	} {
		t.Run("B-56 "+role.who, func(t *testing.T) {
			c := n.connect(t, role.role, role.tenant, role.name)
			for _, subject := range role.subjects {
				_, err := c.SubscribeSync(subject)
				require.NoError(t, err)
				c.mustRefuse(t, "Subscription", subject)
			}
		})
	}
}

// replyForgeries are allowed steps whose reply subject aims at a decision.
func replyForgeries(slot string) []*nats.Msg {
	return []*nats.Msg{
		{Subject: getRequest + "t.pool.bait", Reply: slot},
		{Subject: "hitl.evt.t.pool.s1", Reply: slot, Data: []byte(`{"outcome":"allowed"}`)},
	}
}

// ownSteps read and write what the owner may, and then store a decision of the
// writer's, counted in n.
func ownSteps(t *testing.T, owner, writer *client, n *int) []func() {
	return []func(){
		func() { owner.ask(t, getRequest+"t.pool.bait", "") },
		func() { owner.store(t, "hitl.evt.t.pool.s1", "own") },
		func() {
			*n++
			writer.store(t, fmt.Sprintf("hitl.dec.t.other.id%d", *n), "decision")
		},
	}
}

// An owner's reply subject means nothing outside its account.
func TestB56ReplySubjectCannotBecomeADecision_invariant2(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	owner := n.connect(t, bus.RoleOwner, "t", "pool")
	prov := n.connect(t, bus.RoleProvisioner, "", "").js(t)
	owner.store(t, "hitl.req.t.pool.bait", `{"outcome":"allowed"}`)
	gw := n.connect(t, bus.RoleGateway, "", "")
	decisions := 0
	for i, forged := range replyForgeries("hitl.dec.t.pool.bait") {
		require.NoError(t, owner.PublishMsg(forged))
		barrier(ownSteps(t, owner, gw, &decisions)...)
		require.Empty(t, stored(t, prov, "HITL_DECISIONS", "hitl.dec.t.pool.bait"), "forgery %d", i)
	}
	require.EqualValues(t, decisions, streamState(t, n, "HITL_DECISIONS").LastSeq)
	// Another owner's inbox and request cannot be reached that way either.
	other := n.connect(t, bus.RoleOwner, "t", "cli")
	inbox := other.follow(t, "hitl.inbox.t.cli.*")
	for _, slot := range []string{"hitl.inbox.t.cli.bait", "hitl.req.t.cli.bait", "hitl.ixe.t.cli.s1.bait.open"} {
		require.NoError(t, owner.PublishMsg(&nats.Msg{Subject: getRequest + "t.pool.bait", Reply: slot}))
	}
	barrier(ownSteps(t, owner, gw, &decisions)...)
	require.Empty(t, stored(t, prov, "HITL_REQUESTS", "hitl.req.t.cli.bait"))
	require.Zero(t, streamState(t, n, "HITL_EVENTS").LastSeq)
	require.NoError(t, other.Flush())
	queued, _, err := inbox.Pending()
	require.NoError(t, err)
	require.Zero(t, queued)
}

// The control of the test above: with the same permissions inside the account
// of the streams, both forgeries store something, and the barrier suffices to
// see it.
func TestB56PermissionsAloneWouldNotDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port, err := natsdFreePort()
	require.NoError(t, err)
	conf := filepath.Join(dir, "one-account.conf")
	require.NoError(t, os.WriteFile(conf, []byte(fmt.Sprintf(`
host: "127.0.0.1"
port: %d
jetstream { store_dir: %q }
accounts { CORE { jetstream: enabled, users: [
  { user: prov, password: p }
  { user: owner, password: p, permissions: {
    publish: { allow: ["hitl.req.t.pool.*", "hitl.evt.t.pool.*", "$JS.API.DIRECT.GET.HITL_REQUESTS.hitl.req.t.pool.*"] }
    subscribe: { allow: ["_INBOX.>"] } } }
] } }`, port, filepath.Join(dir, "store"))), 0o600))
	startConfig(t, conf)
	url := fmt.Sprintf("nats://127.0.0.1:%d", port)
	provConn := dial(t, url, nats.UserInfo("prov", "p"))
	prov, decisions := provConn.js(t), 0
	owner := dial(t, url, nats.UserInfo("owner", "p"))
	for _, c := range []jetstream.StreamConfig{
		{Name: "HITL_REQUESTS", Subjects: []string{"hitl.req.>"}, AllowDirect: true},
		{Name: "HITL_DECISIONS", Subjects: []string{"hitl.dec.>"}, AllowDirect: true},
		{Name: "HITL_TRANSCRIPTS", Subjects: []string{"hitl.evt.>"}},
	} {
		_, err := prov.CreateStream(t.Context(), c)
		require.NoError(t, err)
	}
	owner.store(t, "hitl.req.t.pool.bait", `{"outcome":"allowed"}`)
	for i := range replyForgeries("") {
		slot := fmt.Sprintf("hitl.dec.t.pool.bait%d", i)
		require.NoError(t, owner.PublishMsg(replyForgeries(slot)[i]))
		barrier(ownSteps(t, owner, provConn, &decisions)...)
		require.NotEmpty(t, stored(t, prov, "HITL_DECISIONS", slot), "forgery %d", i)
	}
}

// A gateway's reply subjects do not reach the management of streams, whatever
// it stored before: an empty body deletes or purges, a configuration changes.
func TestB56GatewayCannotManageStreamsByReply_invariant1(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	prov := n.connect(t, bus.RoleProvisioner, "", "").js(t)
	gw := n.connect(t, bus.RoleGateway, "", "")
	before := streamNames(t, prov)
	n.connect(t, bus.RoleOwner, "t", "pool").store(t, "hitl.evt.t.pool.s1", "kept")
	forgeManagement(t, gw)
	gw.mustBeContent(t)
	require.Equal(t, before, streamNames(t, prov))
	require.EqualValues(t, 1, streamState(t, n, "HITL_EVENTS").Msgs)
	require.EqualValues(t, 1, streamState(t, n, "HITL_TRANSCRIPTS").Msgs)
}

// The control of the test above: where the streams' account has the whole API,
// the same steps do damage.
func TestB56ManagementByReplyWorksWhereItIsNotSealed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port, err := natsdFreePort()
	require.NoError(t, err)
	conf := filepath.Join(dir, "one-account.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, `
host: "127.0.0.1"
port: %d
jetstream { store_dir: %q }
accounts { CORE { jetstream: enabled, users: [ { user: any, password: p } ] } }`, port, filepath.Join(dir, "store")), 0o600))
	startConfig(t, conf)
	c := dial(t, fmt.Sprintf("nats://127.0.0.1:%d", port), nats.UserInfo("any", "p"))
	provision(t, c.js(t), 1)
	before := streamNames(t, c.js(t))
	forgeManagement(t, c)
	after := streamNames(t, c.js(t))
	require.Contains(t, after, "EVIL")
	require.Contains(t, before, "HITL_TRANSCRIPTS")
	require.NotContains(t, after, "HITL_TRANSCRIPTS")
	require.NotContains(t, after, "HITL_WORK")
}

func streamNames(t *testing.T, js jetstream.JetStream) []string {
	t.Helper()
	var all []string
	lister := js.StreamNames(t.Context())
	for name := range lister.Name() {
		all = append(all, name)
	}
	require.NoError(t, lister.Err())
	slices.Sort(all)
	return all
}

// forgeManagement takes steps a gateway may take, with reply subjects that aim
// at the management of streams.
func forgeManagement(t *testing.T, gw *client) {
	t.Helper()
	gw.store(t, "$KV.hitl_people.empty", "")
	gw.store(t, "$KV.hitl_people.evil", `{"name":"EVIL","subjects":["evil"],"storage":"file"}`)
	for _, durable := range []string{"empty", "none"} {
		_, err := gw.js(t).CreateConsumer(t.Context(), "KV_hitl_people", jetstream.ConsumerConfig{
			Durable: durable, FilterSubject: "$KV.hitl_people." + durable, AckPolicy: jetstream.AckNonePolicy,
		})
		require.NoError(t, err)
	}
	get := "$JS.API.DIRECT.GET.KV_hitl_people.$KV.hitl_people."
	pull := "$JS.API.CONSUMER.MSG.NEXT.KV_hitl_people."
	for _, m := range []*nats.Msg{
		{Subject: get + "empty", Reply: "$JS.API.STREAM.PURGE.HITL_TRANSCRIPTS"},
		{Subject: get + "empty", Reply: "$JS.API.STREAM.DELETE.HITL_TRANSCRIPTS"},
		{Subject: get + "evil", Reply: "$JS.API.STREAM.CREATE.EVIL"},
		{Subject: pull + "empty", Reply: "$JS.API.STREAM.DELETE.HITL_WORK", Data: []byte(`{"batch":1}`)},
		{Subject: pull + "none", Reply: "$JS.API.STREAM.DELETE.HITL_WORK", Data: []byte(`{"batch":1,"no_wait":true}`)},
		{Subject: "hitl.ixe.t.pool.s1.id1.open", Reply: "$JS.API.STREAM.PURGE.HITL_EVENTS", Data: []byte("event")},
	} {
		require.NoError(t, gw.PublishMsg(m))
		barrier(
			func() { gw.ask(t, get+"empty", "") },
			func() { gw.ask(t, pull+"none", `{"batch":1,"no_wait":true}`) },
			func() { gw.store(t, "$KV.hitl_people.other", "x") },
			func() { gw.ask(t, "$JS.API.STREAM.INFO.KV_hitl_people", "") })
	}
	// A consumer that delivers into the management of streams.
	for _, config := range []string{
		`{"deliver_subject":"$JS.API.STREAM.CREATE.EVIL","filter_subject":"$KV.hitl_people.evil","ack_policy":"none"}`,
		`{"deliver_subject":"$JS.API.STREAM.DELETE.HITL_DECISIONS","filter_subject":"$KV.hitl_people.empty","ack_policy":"none"}`,
	} {
		gw.ask(t, "$JS.API.CONSUMER.CREATE.KV_hitl_people", `{"stream_name":"KV_hitl_people","config":`+config+`}`)
		barrier(func() { gw.store(t, "$KV.hitl_people.other", "x") },
			func() { gw.ask(t, "$JS.API.STREAM.INFO.KV_hitl_people", "") })
	}
}

// In its own JetStream the notifier may do everything; CORE does not notice.
func TestB56NotifierReachesOneConsumerOnly(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	notifier := n.connect(t, bus.RoleNotifier, "t", "")
	gw := n.connect(t, bus.RoleGateway, "", "")
	prov := n.connect(t, bus.RoleProvisioner, "", "").js(t)
	gw.store(t, "hitl.ixe.u.pool.s1.id1.open", "of another tenant")
	before := picture(t, prov)

	for _, call := range []string{
		"CONSUMER.CREATE.HITL_EVENTS", "CONSUMER.DURABLE.CREATE.HITL_EVENTS.mine", "CONSUMER.INFO.HITL_EVENTS.notifier-u",
		"CONSUMER.DELETE.HITL_EVENTS.notifier-t", "STREAM.INFO.HITL_EVENTS", "STREAM.DELETE.HITL_EVENTS", "STREAM.PURGE.HITL_EVENTS",
		"STREAM.MSG.GET.HITL_EVENTS",
	} {
		body := ""
		if strings.Contains(call, "CREATE") {
			body = `{"stream_name":"HITL_EVENTS","config":{"durable_name":"mine","ack_policy":"explicit"}}`
		}
		if strings.HasSuffix(call, ".CREATE.HITL_EVENTS") {
			body = `{"stream_name":"HITL_EVENTS","config":{"ack_policy":"explicit"}}`
		}
		require.Contains(t, string(notifier.ask(t, "$JS.API."+call, body).Data), `"error"`, call)
	}
	// Another tenant's consumer, and a direct read: nobody answers at all.
	for _, subject := range []string{pullEvents + "notifier-u", "$JS.API.DIRECT.GET.HITL_EVENTS.hitl.ixe.u.pool.s1.id1.open"} {
		_, err := notifier.Request(subject, []byte(`{"batch":1,"no_wait":true}`), patience)
		require.ErrorIs(t, err, nats.ErrNoResponders, subject)
	}
	// Its replies stay in its account.
	for _, slot := range []string{"hitl.dec.t.pool.id1", "hitl.ixe.t.pool.s1.id9.open"} {
		require.NoError(t, notifier.PublishMsg(&nats.Msg{
			Subject: pullEvents + "notifier-t", Reply: slot, Data: []byte(`{"batch":1,"no_wait":true}`),
		}))
	}
	barrier(func() { notifier.ask(t, pullEvents+"notifier-t", `{"batch":1,"no_wait":true}`) })
	require.Equal(t, before, picture(t, prov))
}

// A caller's handler can be made to answer nowhere else: a client cannot name
// the server's own reply subjects, and what crosses accounts is rewritten.
func TestB56CallerCannotAimTheHandlersReply(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	caller := n.connect(t, bus.RoleCaller, "t", "ci")
	gw := n.connect(t, bus.RoleGateway, "", "")
	calls := gw.follow(t, "hitl.svc.*.*.*")
	require.NoError(t, caller.PublishRequest("hitl.svc.t.ci.ask", "hitl.dec.t.pool.id1", nil))
	call := next(t, calls)
	require.True(t, strings.HasPrefix(call.Reply, "_R_."), call.Reply)
	require.NoError(t, call.Respond([]byte("answer")))
	barrier(func() { gw.store(t, "$KV.hitl_people.other", "x") })
	require.Zero(t, streamState(t, n, "HITL_DECISIONS").LastSeq)

	require.NoError(t, caller.PublishRequest("hitl.svc.t.ci.ask", "_R_.forged", nil))
	require.NoError(t, caller.Flush())
	require.ErrorIs(t, <-caller.refused, nats.ErrPermissionViolation)
	// A call without a reply subject is told apart by that.
	require.NoError(t, caller.Publish("hitl.svc.t.ci.ask", nil))
	require.Empty(t, next(t, calls).Reply)
}
