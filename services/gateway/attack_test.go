package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// steps that no identity outside CORE may take, by what they are meant to do.
// %s stands for the attacker's own name.
var steps = []struct {
	name     string
	subjects []string
}{
	{"decides its own request", []string{"hitl.dec.default.%s.id1"}},
	{"decides another's request", []string{"hitl.dec.default.victim." + keptID}},
	{"decides another tenant's request", []string{"hitl.dec.other.evil.id1"}},
	{"forges its own inbox", []string{"hitl.inbox.default.%s.id1"}},
	{"forges another's inbox", []string{"hitl.inbox.default.victim." + keptID}},
	{"says that an interaction is open", []string{"hitl.ixe.default.%s.s1.id1.open", "hitl.ixe.default.victim.s1.id1.open"}},
	{"says that an interaction is closed", []string{"hitl.ixe.default.victim.s1." + keptID + ".closed"}},
	{"declares a session dead", []string{"hitl.sgw.default.victim.s1", "hitl.sgw.default.%s.s1"}},
	{"writes another's conversation", []string{"hitl.evt.default.victim.s1", "hitl.evt.other.evil.s1"}},
	{"writes another's session state", []string{"hitl.ses.default.victim.s1", "hitl.ses.other.evil.s1"}},
	{"acknowledges for another", []string{"hitl.ack.default.victim." + keptID + ".applied"}},
	{"sends another's live text", []string{"hitl.live.default.victim.s1"}},
	{"sends another's heartbeat", []string{"hitl.beat.default.victim.w"}},
	{"asks as another", []string{"hitl.req.default.victim.id1", "hitl.req.other.evil.id1"}},
	{"leaves a request as another", []string{"hitl.box.default.victim.id1.req", "hitl.box.other.evil.id1.req", "hitl.box.default.victim." + keptID + ".req"}},
	{"leaves another's withdrawal", []string{"hitl.box.default.victim." + keptID + ".cxl"}},
	{"asks out of its turn", []string{"hitl.say.req.default.%s.id1", "hitl.say.cxl.default.victim." + keptID}},
	{"takes another's id", []string{"hitl.req.default.victim." + keptID}},
	{"withdraws another's request", []string{"hitl.cxl.default.victim." + keptID, "hitl.cxl.other.evil.id1"}},
	{"adds tokens to its own subjects", []string{"hitl.req.default.%s.a.b", "hitl.req.default.%s", "hitl.ack.default.%s.id1", "hitl.evt.default.%s.s1.more"}},
	{"commands a session", []string{"hitl.cmd.default.victim.s1"}},
	{"starts work", []string{"hitl.work.default.victim", "hitl.work.default.agents"}},
	{"feeds a caller", []string{"hitl.feed.ci.default", "hitl.feed.%s.default"}},
	{"calls as another caller", []string{"hitl.svc.default.nobody.decide", "hitl.svc.other.ci.decide", "hitl.svc.default.%s.decide.more"}},
	{"answers in the server's name", []string{"_R_.forged"}},
	{"creates a stream", []string{"$JS.API.STREAM.CREATE.EVIL"}},
	{"changes a stream", []string{"$JS.API.STREAM.UPDATE.HITL_DECISIONS"}},
	{"deletes a stream", []string{"$JS.API.STREAM.DELETE.HITL_DECISIONS", "$JS.API.STREAM.DELETE.KV_hitl_sessions", "$JS.API.STREAM.DELETE.KV_hitl_users", "$JS.API.STREAM.DELETE.KV_hitl_rules"}},
	{"purges a stream", []string{"$JS.API.STREAM.PURGE.HITL_EVENTS", "$JS.API.STREAM.PURGE.HITL_REQUESTS"}},
	{"takes a snapshot", []string{"$JS.API.STREAM.SNAPSHOT.HITL_DECISIONS"}},
	{"restores a snapshot", []string{"$JS.API.STREAM.RESTORE.HITL_DECISIONS"}},
	{"makes leaders step down", []string{"$JS.API.STREAM.LEADER.STEPDOWN.HITL_DECISIONS", "$JS.API.CONSUMER.LEADER.STEPDOWN.HITL_REQUESTS.intake"}},
	{"removes a peer", []string{"$JS.API.STREAM.PEER.REMOVE.HITL_DECISIONS"}},
	{"tells past the quota", []string{"hitl.say.evt.default.%s.s1", "hitl.say.ack.default.victim." + keptID + ".taken"}},
	{"deletes a message", []string{"$JS.API.STREAM.MSG.DELETE.HITL_REQUESTS", "$JS.API.STREAM.MSG.DELETE.HITL_TRANSCRIPTS", "$JS.API.STREAM.MSG.DELETE.HITL_DECISIONS"}},
	{"reads a message by number", []string{"$JS.API.STREAM.MSG.GET.HITL_DECISIONS", "$JS.API.DIRECT.GET.HITL_DECISIONS", "$JS.API.DIRECT.GET.HITL_REQUESTS"}},
	{"reads another's decision", []string{"$JS.API.DIRECT.GET.HITL_DECISIONS.hitl.dec.default.victim." + keptID, "$JS.API.DIRECT.GET.HITL_DECISIONS.hitl.dec.other.evil.id1"}},
	{"reads another's request", []string{"$JS.API.DIRECT.GET.HITL_REQUESTS.hitl.req.default.victim." + keptID, "$JS.API.DIRECT.GET.HITL_MAILBOX.hitl.box.default.victim." + keptID + ".req", "$JS.API.DIRECT.GET.HITL_MAILBOX"}},
	{"reads another's conversation", []string{"$JS.API.DIRECT.GET.HITL_TRANSCRIPTS.hitl.evt.default.victim.s1", "$JS.API.DIRECT.GET.HITL_TRANSCRIPTS.hitl.ses.default.victim.s1"}},
	{"reads the events", []string{"$JS.API.DIRECT.GET.HITL_EVENTS.hitl.ixe.default.victim.s1." + keptID + ".open"}},
	{"looks at streams", []string{"$JS.API.STREAM.INFO.HITL_DECISIONS", "$JS.API.STREAM.MSG.GET.KV_hitl_sessions", "$JS.API.STREAM.MSG.GET.KV_hitl_users", "$JS.API.STREAM.MSG.GET.KV_hitl_rules"}},
	{"makes a consumer", []string{"$JS.API.CONSUMER.CREATE.HITL_DECISIONS", "$JS.API.CONSUMER.CREATE.HITL_EVENTS.x.hitl.ixe.>", "$JS.API.CONSUMER.DURABLE.CREATE.HITL_REQUESTS.x"}},
	{"changes a consumer", []string{"$JS.API.CONSUMER.DELETE.HITL_REQUESTS.intake", "$JS.API.CONSUMER.PAUSE.HITL_REQUESTS.intake", "$JS.API.CONSUMER.INFO.HITL_REQUESTS.intake"}},
	{"takes the gateways' messages", []string{"$JS.API.CONSUMER.MSG.NEXT.HITL_REQUESTS.intake", "$JS.API.CONSUMER.MSG.NEXT.HITL_DECISIONS.sweeper", "$JS.API.CONSUMER.MSG.NEXT.HITL_MAILBOX.mailbox"}},
	{"takes another pool's work", []string{"$JS.API.CONSUMER.MSG.NEXT.HITL_WORK.default-victim", "$JS.API.CONSUMER.MSG.NEXT.HITL_WORK.other-evil"}},
	{"acknowledges what others took", []string{"$JS.ACK.HITL_WORK.default-victim.1.1.1.1.0", "$JS.ACK.HITL_REQUESTS.intake.1.1.1.1.0", "$JS.ACK.HITL_DECISIONS.sweeper.1.1.1.1.0", "$JS.ACK.HITL_MAILBOX.mailbox.1.1.1.1.0"}},
	{"writes a bucket", []string{"$KV.hitl_sessions.forged", "$KV.hitl_users.forged", "$KV.hitl_rules.rule.forged"}},
	{"calls the system", []string{"$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.CORE.CONNZ"}},
}

var earfuls = []string{
	">", "hitl.>", "*.*.*.*.*", "hitl.inbox.default.victim.*", "hitl.inbox.*.*.*", "hitl.cmd.default.victim.*", "hitl.dec.>", "hitl.req.>",
	"hitl.ixe.>", "hitl.evt.>", "hitl.live.default.victim.*", "hitl.beat.>", "hitl.feed.*.*", "hitl.svc.>", "$JS.>", "$JS.ACK.>", "$SYS.>",
	"$KV.>", "_R_.>", "$SRV.>",
}

// Steps that the server refuses at once, each with the credential of an owner,
// of a calling service and of the notifier.
func TestAttacksThatTheServerRefuses_B56_invariant2(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	for _, role := range []struct {
		role bus.Role
		name string
	}{{bus.RoleOwner, "evil"}, {bus.RoleCaller, "ci"}, {bus.RoleNotifier, ""}} {
		c := a.attacker(t, role.role, role.name)
		own := role.name
		if own == "" {
			own = "notifier"
		}
		for _, s := range steps {
			a.attack(t, c.who+" "+s.name, func(t *testing.T) {
				for _, subj := range s.subjects {
					c.forbidden(t, strings.ReplaceAll(subj, "%s", own), `{"seq":1,"name":"EVIL","batch":1}`)
				}
			})
		}
		a.attack(t, c.who+" listens to others", func(t *testing.T) {
			for _, subj := range earfuls {
				c.deaf(t, subj)
			}
		})
	}
	// In its own JetStream the notifier may say even this; nobody answers.
	notifier := a.attacker(t, bus.RoleNotifier, "")
	a.attack(t, "notifier runs the cluster", func(t *testing.T) {
		for _, subj := range []string{"$JS.API.META.LEADER.STEPDOWN", "$JS.API.SERVER.REMOVE", "$JS.API.ACCOUNT.PURGE.CORE"} {
			require.NoError(t, notifier.PublishRequest(subj, notifier.NewInbox(), []byte(`{"peer":"x"}`)))
		}
		require.NoError(t, notifier.Flush())
	})
	// A client that waits for its forbidden step is told, and does not run into
	// its time limit.
	a.attack(t, "a caller that asks is told at once", func(t *testing.T) {
		client, err := bus.Connect(t.Context(), a.creds(bus.RoleCaller, "ci"), bus.Options{})
		require.NoError(t, err)
		defer client.Close()
		_, err = client.Ask(t.Context(), request("k"))
		require.ErrorIs(t, err, bus.ErrForbidden)
	})
	a.finish()
}

// finish decides what the victim waited for all along, also after a gateway
// has read everything that the attackers left.
func (a *arena) finish() {
	a.t.Helper()
	require.NoError(a.t, a.g.stop())
	a.g = a.gateway()
	require.Eventually(a.t, func() bool { return a.pending("default.victim." + keptID) }, patience, time.Millisecond)
	roundTrip(a.t, a.agents, a.g, "after the restart")
	a.noForgery(a.t)
	a.settle()
}

func (a *arena) settle() {
	a.t.Helper()
	status, raw := a.g.call("GET", "/api/interactions/default.victim."+keptID, a.g.token, "")
	require.Equal(a.t, 200, status)
	var ix wire.Interaction
	require.NoError(a.t, json.Unmarshal(raw, &ix))
	status, raw = a.g.call("POST", "/api/interactions/default.victim."+keptID+"/decision", a.g.token,
		fmt.Sprintf(`{"decision":"deny","message":"no","digest":%q}`, ix.Digest))
	require.Equal(a.t, 200, status, string(raw))
	got := take(a.t, a.kept)
	require.Equal(a.t, hitl.Denied, got.Decision.Outcome)
	require.Equal(a.t, "no", got.Decision.Message)
}

// targets are what a reply subject may be aimed at.
var targets = []string{
	"hitl.dec.default.evil.bait", "hitl.dec.default.victim." + keptID, "hitl.dec.other.evil.x",
	"hitl.ixe.default.victim.s1.x.open", "hitl.ixe.default.victim.s1." + keptID + ".closed", "hitl.sgw.default.victim.s1",
	"hitl.req.default.victim.x", "hitl.cxl.default.victim." + keptID, "hitl.evt.default.victim.s1", "hitl.ses.default.victim.s1",
	"hitl.ack.default.victim." + keptID + ".applied", "hitl.inbox.default.victim." + keptID, "hitl.work.default.victim",
	"hitl.cmd.default.victim.s1", "hitl.beat.default.victim.w", "hitl.svc.default.ci.decide", "hitl.feed.ci.default",
	"$JS.API.STREAM.DELETE.HITL_REQUESTS", "$JS.API.STREAM.PURGE.HITL_EVENTS", "$JS.API.STREAM.CREATE.EVIL",
	"hitl.say.evt.default.victim.s1", "hitl.say.ses.default.victim.s1", "hitl.say.ack.default.victim." + keptID + ".taken", "_R_.forged",
	"$JS.API.STREAM.MSG.DELETE.HITL_REQUESTS", "$JS.API.STREAM.MSG.DELETE.HITL_TRANSCRIPTS", "$JS.API.CONSUMER.DELETE.HITL_REQUESTS.intake", "$KV.hitl_sessions.forged",
	"$JS.ACK.HITL_REQUESTS.intake.1.1.1.1.0", "hitl.box.default.victim.x.req", "hitl.box.default.victim." + keptID + ".cxl", "hitl.say.req.default.victim.x",
	"$JS.ACK.HITL_MAILBOX.mailbox.1.1.1.1.0",
}

// The server does not check a reply subject. In another account it means
// nothing.
func TestAttacksByReplySubject_B56_invariant1_invariant2(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	evil, ci, notifier := a.attacker(t, bus.RoleOwner, "evil"), a.attacker(t, bus.RoleCaller, "ci"), a.attacker(t, bus.RoleNotifier, "")
	// Bodies that would be a decision, a configuration and nothing at all.
	bait := `{"v":1,"decision_id":"d","interaction_id":"bait","digest":"x","outcome":"allowed","name":"EVIL","subjects":["evil"],"storage":"file"}`
	a.store(evil.Conn, "hitl.ses.default.evil.bait", []byte(bait), nil)
	a.store(evil.Conn, "hitl.ses.default.evil.empty", nil, nil)
	a.store(a.gw, "hitl.work.default.evil", []byte(bait), nil)
	n := 0
	pull := `{"batch":1,"no_wait":true}`
	for _, c := range []struct {
		name string
		by   *attacker
		// next makes the carrier: a step that its identity may take.
		next func() *nats.Msg
	}{
		{"Direct Get of its session state", evil, func() *nats.Msg {
			return nats.NewMsg("$JS.API.DIRECT.GET.HITL_TRANSCRIPTS.hitl.ses.default.evil.bait")
		}},
		{"Direct Get of an empty message", evil, func() *nats.Msg {
			return nats.NewMsg("$JS.API.DIRECT.GET.HITL_TRANSCRIPTS.hitl.ses.default.evil.empty")
		}},
		{"Direct Get of its request", evil, func() *nats.Msg {
			n++
			subj, raw := evils(fmt.Sprintf("bait-%d", n))
			a.store(evil.Conn, subj, raw, nil)
			return nats.NewMsg("$JS.API.DIRECT.GET.HITL_REQUESTS." + subj)
		}},
		{"Direct Get of what it left", evil, func() *nats.Msg {
			return nats.NewMsg("$JS.API.DIRECT.GET.HITL_MAILBOX.hitl.box.default.evil.none.req")
		}},
		{"publish acknowledgement of what it leaves", evil, func() *nats.Msg {
			n++
			return &nats.Msg{Subject: fmt.Sprintf("hitl.box.default.evil.left%d.cxl", n), Data: []byte(bait)}
		}},
		{"Direct Get of its decision", evil, func() *nats.Msg {
			return nats.NewMsg("$JS.API.DIRECT.GET.HITL_DECISIONS.hitl.dec.default.evil.none")
		}},
		{"publish acknowledgement of a request", evil, func() *nats.Msg {
			n++
			subj, raw := evils(fmt.Sprintf("ack-%d", n))
			return &nats.Msg{Subject: subj, Data: raw}
		}},
		{"publish acknowledgement of a withdrawal", evil, func() *nats.Msg {
			n++
			return &nats.Msg{Subject: fmt.Sprintf("hitl.cxl.default.evil.none%d", n), Data: []byte(bait)}
		}},
		{"publish acknowledgement of an event", evil, func() *nats.Msg { return &nats.Msg{Subject: "hitl.evt.default.evil.s", Data: []byte(bait)} }},
		{"publish acknowledgement of a receipt", evil, func() *nats.Msg {
			return &nats.Msg{Subject: "hitl.ack.default.evil.id.applied", Data: []byte(bait)}
		}},
		{"pull of work", evil, func() *nats.Msg {
			return &nats.Msg{Subject: "$JS.API.CONSUMER.MSG.NEXT.HITL_WORK.default-evil", Data: []byte(pull)}
		}},
		{"acknowledgement of work", evil, func() *nats.Msg {
			return &nats.Msg{Subject: "$JS.ACK.HITL_WORK.default-evil.1.1.1.1.0", Data: []byte("+ACK")}
		}},
		{"live text", evil, func() *nats.Msg { return &nats.Msg{Subject: "hitl.live.default.evil.s", Data: []byte(bait)} }},
		{"a call of an owner", evil, func() *nats.Msg { return nats.NewMsg("hitl.svc.default.evil.list") }},
		{"a call of a service", ci, func() *nats.Msg { return nats.NewMsg("hitl.svc.default.ci.list") }},
		{"pull of events", notifier, func() *nats.Msg {
			return &nats.Msg{Subject: "$JS.API.CONSUMER.MSG.NEXT.HITL_EVENTS.notifier", Data: []byte(pull)}
		}},
		{"acknowledgement of an event's delivery", notifier, func() *nats.Msg {
			return &nats.Msg{Subject: "$JS.ACK.HITL_EVENTS.notifier.1.1.1.1.0", Data: []byte("+NAK")}
		}},
		{"a call of the notifier", notifier, func() *nats.Msg { return nats.NewMsg("hitl.svc.default.notifier.list") }},
	} {
		a.attack(t, c.by.who+": "+c.name, func(t *testing.T) {
			for _, target := range targets {
				m := c.next()
				m.Reply = target
				require.NoError(t, c.by.PublishMsg(m))
			}
			require.NoError(t, c.by.Flush())
		})
	}
	a.finish()
}

// hostile are headers that mean something to the server or to a client.
var hostile = map[string]nats.Header{
	"Status 404":              {"Status": {"404"}, "Description": {"Message Not Found"}},
	"Status 409":              {"Status": {"409"}, "Description": {"Consumer Deleted"}},
	"Status 503":              {"Status": {"503"}},
	"Status 100":              {"Status": {"100"}, "Nats-Last-Consumer": {"9999"}},
	"Nats-Subject":            {"Nats-Subject": {"hitl.dec.default.victim." + keptID}},
	"Nats-Sequence":           {"Nats-Sequence": {"1"}, "Nats-Stream": {"HITL_DECISIONS"}},
	"Nats-Time-Stamp":         {"Nats-Time-Stamp": {"1970-01-01T00:00:00Z"}},
	"Nats-Last-Sequence":      {"Nats-Last-Sequence": {"1"}, "Nats-Num-Pending": {"0"}},
	"Nats-Rollup sub":         {"Nats-Rollup": {"sub"}},
	"Nats-Rollup all":         {"Nats-Rollup": {"all"}},
	"Nats-TTL":                {"Nats-TTL": {"1s"}},
	"Nats-Schedule":           {"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {"hitl.dec.default.victim." + keptID}},
	"Nats-Schedule-TTL":       {"Nats-Schedule": {"@at 2020-01-01T00:00:00Z"}, "Nats-Schedule-Target": {"hitl.dec.default.evil.x"}, "Nats-Schedule-TTL": {"1s"}},
	"Nats-Expected-Stream":    {"Nats-Expected-Stream": {"HITL_DECISIONS"}},
	"Nats-Expected-Last":      {"Nats-Expected-Last-Sequence": {"0"}, "Nats-Expected-Last-Msg-Id": {"x"}},
	"Nats-Expected-Subject":   {"Nats-Expected-Last-Subject-Sequence": {"1"}, "Nats-Expected-Last-Subject-Sequence-Subject": {"hitl.req.default.victim." + keptID}},
	"Nats-Batch":              {"Nats-Batch-Id": {"b"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}},
	"Nats-Incr":               {"Nats-Incr": {"+1"}},
	"Nats-Marker-Reason":      {"Nats-Marker-Reason": {"Purge"}},
	"Nats-Msg-Id":             {"Nats-Msg-Id": {keptID}},
	"Nats-Trace-Dest":         {"Nats-Trace-Dest": {"hitl.dec.default.victim." + keptID}},
	"KV-Operation":            {"KV-Operation": {"PURGE"}},
	"a signature":             {"Hitl-Signer": {"0123456789abcdef"}, "Hitl-Signature": {"AAAA"}},
	"a word of turning away":  {wire.HeaderTurnedAway: {"go away"}},
	"an attempt":              {"Hitl-Attempt": {"1000000000000"}},
	"a thousand headers":      thousand(),
	"an error of the service": {"Nats-Service-Error": {"x"}, "Nats-Service-Error-Code": {"500"}},
}

func thousand() nats.Header {
	h := nats.Header{}
	for i := range 1000 {
		h[fmt.Sprintf("X-%d", i)] = []string{strings.Repeat("x", 30)}
	}
	return h
}

// Whatever stands in the headers of what an owner stores, with a body and
// without one: gateways read on, now and after a restart.
func TestAttacksByStoredHeaders_B56(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	evil := a.attacker(t, bus.RoleOwner, "evil")
	n := 0
	for name, h := range hostile {
		a.attack(t, "header "+name, func(t *testing.T) {
			for _, empty := range []bool{false, true} {
				n++
				subj, raw := evils(fmt.Sprintf("h-%d", n))
				for subj, body := range map[string][]byte{
					subj:                               raw,
					subject.Left(subj):                 raw,
					"hitl.cxl.default.evil.none":       []byte(`{"v":1}`),
					"hitl.box.default.evil.none.cxl":   []byte(`{"v":1}`),
					"hitl.evt.default.evil.s1":         []byte(`{"v":1,"type":"text","data":{"role":"assistant","text":"x"}}`),
					"hitl.ses.default.evil.s1":         []byte(`{"v":1,"session_id":"s1"}`),
					"hitl.ack.default.evil.id.applied": []byte(`{"v":1,"stage":"applied"}`),
				} {
					if empty {
						body = nil
					}
					evil.send(t, &nats.Msg{Subject: subj, Data: body, Header: h})
				}
			}
		})
	}
	a.finish()
}

// Names that an owner may put where an id or a session belongs.
func TestAttacksByName_B56(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	evil := a.attacker(t, bus.RoleOwner, "evil")
	for name, token := range map[string]string{
		"4,000 bytes": strings.Repeat("a", 4000),
		// It just fits the line of a publish without a reply subject, and no
		// answer on it fits one with.
		"4,050 bytes": strings.Repeat("a", 4050), "65 bytes": strings.Repeat("a", 65), "a wildcard": "*", "a full wildcard": ">",
		"a control character": "a\x01b", "a zero byte": "a\x00b", "DEL": "\x7f", "unicode": "é", "broken UTF-8": "\xff\xfe",
		"a bidi mark": "a\u202eb", "a quote": `"`, "a slash": "../../x", "a dollar": "$JS", "a hash": "h_" + strings.Repeat("A", 43),
	} {
		a.attack(t, "id with "+name, func(t *testing.T) {
			_, raw := evils("name-" + name)
			by := a.attacker(t, bus.RoleOwner, "evil")
			for _, kind := range []string{"req", "cxl", "evt", "ses"} {
				require.NoError(t, by.PublishMsg(&nats.Msg{Subject: "hitl." + kind + ".default.evil." + token, Data: raw}))
			}
			require.NoError(t, by.Flush())
			// The longest of them do not fit a line any more: then the server
			// closes the attacker's connection.
			for _, m := range []*nats.Msg{
				{Subject: "hitl.live.default.evil." + token, Data: raw},
				{Subject: "hitl.beat.default.evil." + token, Data: raw},
				{Subject: "hitl.ack.default.evil." + token + ".applied", Data: raw},
				{Subject: "hitl.svc.default.evil." + token, Data: raw, Reply: by.NewInbox()},
				{Subject: "hitl.box.default.evil." + token + ".req", Data: raw},
				{Subject: "hitl.box.default.evil.id." + token, Data: raw},
			} {
				_ = by.PublishMsg(m)
			}
			_ = by.Flush()
		})
	}
	// None of them stays among the requests.
	require.Eventually(t, func() bool {
		return a.count(a.prov, "HITL_REQUESTS", "hitl.*.default.evil.*") == 0 && a.count(a.prov, "HITL_MAILBOX", ">") == 0
	}, patience, 5*time.Millisecond)

	a.attack(t, "another's session name", func(t *testing.T) {
		subj, raw := evils("session", func(r *hitl.Request) { r.SessionID = "s1" })
		a.store(evil.Conn, subj, raw, nil)
		state := `{"v":1,"session_id":"s1","tenant":"default","owner":"victim","worker":"x","generation":99,"runtime":"demo","state":"dead",` +
			`"title":"taken","started_at":"2026-01-01T00:00:00Z","state_changed_at":"2026-01-01T00:00:00Z"}`
		a.store(evil.Conn, "hitl.ses.default.evil.s1", []byte(state), nil)
		require.NoError(t, evil.Publish("hitl.beat.default.evil.w", []byte(`{"v":1,"worker":"w"}`)))
	})
	a.attack(t, "another's name in the request", func(t *testing.T) {
		for i, change := range []func(*hitl.Request){
			func(r *hitl.Request) { r.Owner = "victim" }, func(r *hitl.Request) { r.Tenant = "other" }, func(r *hitl.Request) { r.Key = "kept" },
		} {
			r := request(fmt.Sprintf("other-%d", i))
			r.V, r.Tenant, r.Owner = 1, bus.DefaultTenant, "evil"
			change(r)
			r.ID = keptID
			raw, err := hitl.Marshal(r)
			require.NoError(t, err)
			ref := subject.NewRef(bus.DefaultTenant, "evil", fmt.Sprintf("%s-%d", keptID[:30], i))
			a.store(evil.Conn, subject.Request(ref), raw, nil)
			require.Eventually(t, func() bool {
				return a.count(a.prov, "HITL_DECISIONS", subject.Decision(ref)) == 1 // invalid
			}, patience, time.Millisecond)
		}
	})
	a.finish()
}

// What a body claims about who decides counts for nothing.
func TestAttacksOnTheServiceAPI_B56(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	status, raw := a.g.call("GET", "/api/interactions/default.victim."+keptID, a.g.token, "")
	require.Equal(t, 200, status)
	var ix wire.Interaction
	require.NoError(t, json.Unmarshal(raw, &ix))
	for _, c := range []struct {
		role bus.Role
		name string
	}{{bus.RoleOwner, "evil"}, {bus.RoleCaller, "ci"}, {bus.RoleNotifier, ""}} {
		by := a.attacker(t, c.role, c.name)
		own := c.name
		if own == "" {
			own = "notifier"
		}
		for name, more := range map[string]string{
			"no token":              ``,
			"an empty token":        `,"token":""`,
			"a guessed token":       `,"token":"` + strings.Repeat("A", 43) + `"`,
			"the owner's principal": `,"principal":{"kind":"person","id":"owner"},"channel":"web","assurance":"session"`,
			"a rule's principal":    `,"principal":{"kind":"rule","id":"r"},"waive_digest":true`,
			"another caller's name": `,"caller":"cli","tenant":"default"`,
		} {
			a.attack(t, by.who+" decides with "+name, func(t *testing.T) {
				body := fmt.Sprintf(`{"id":%q,"digest":%q,"decision":"allow"%s}`, ix.Key, ix.Digest, more)
				reply := by.send(t, &nats.Msg{Subject: "hitl.svc.default." + own + ".decide", Data: []byte(body)})
				require.Regexp(t, `"status":"(forbidden|invalid)"|"code":"(forbidden|invalid)"`, reply)
			})
		}
		a.attack(t, by.who+" begins a login", func(t *testing.T) {
			require.Contains(t, by.send(t, &nats.Msg{Subject: "hitl.svc.default." + own + ".login", Data: []byte(`{}`)}), `"forbidden"`)
		})
		for name, body := range map[string]string{
			"no JSON": `{`, "two JSONs": `{}{}`, "a duplicate key": `{"id":"a","id":"b"}`, "deep JSON": strings.Repeat(`[`, 20_000),
			"nothing": ``, "a long id": `{"id":"` + strings.Repeat("a", 100_000) + `"}`, "broken UTF-8": "{\"id\":\"\xff\"}",
		} {
			a.attack(t, by.who+" calls with "+name, func(t *testing.T) {
				for _, verb := range []string{"get", "decide", "cancel", "ask", "nonsense"} {
					require.Regexp(t, `"code":|"status":`, by.send(t, &nats.Msg{Subject: "hitl.svc.default." + own + "." + verb, Data: []byte(body)}))
				}
			})
		}
	}
	a.finish()
}

// A decision that stands in the record counts only with the signature of a
// gateway's key over its subject and exact bytes.
func TestAttacksOnSignatures_B56_invariant2(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	// A real, allowing decision to work with.
	m, err := a.prov.Request("$JS.API.DIRECT.GET.HITL_DECISIONS.hitl.dec.default.victim."+hitl.ID(bus.DefaultTenant, "victim", "done", 1), nil, patience)
	require.NoError(t, err)
	require.Contains(t, string(m.Data), `"allowed"`)
	signer, signature := m.Header.Get(hitl.HeaderSigner), m.Header.Get(hitl.HeaderSignature)
	forge := func(body []byte, signer, signature string) *nats.Msg {
		f := &nats.Msg{Data: body, Header: nats.Header{}}
		if signer != "" {
			f.Header.Set(hitl.HeaderSigner, signer)
			f.Header.Set(hitl.HeaderSignature, signature)
		}
		return f
	}
	id := func(name string) string { return hitl.ID(bus.DefaultTenant, "agents", name, 1) }
	about := func(name string) []byte {
		return []byte(strings.ReplaceAll(string(m.Data), hitl.ID(bus.DefaultTenant, "victim", "done", 1), id(name)))
	}
	asks := map[string]<-chan error{}
	for name, f := range map[string]*nats.Msg{
		"moved from another interaction": forge(m.Data, signer, signature),
		"changed after signing":          forge(about("changed after signing"), signer, signature),
		"without a signature":            forge(about("without a signature"), "", ""),
		"with an unknown key":            forge(about("with an unknown key"), "0123456789abcdef", signature),
		"with an empty signature":        forge(about("with an empty signature"), signer, ""),
	} {
		done := make(chan error, 1)
		stored := make(chan struct{})
		r := request(name)
		soon := hitl.Duration(2 * time.Second)
		r.ExpiresIn = &soon
		// The slot is taken before the request comes, so that no deadline is
		// faster.
		f.Subject = "hitl.dec.default.agents." + id(name)
		a.store(a.gw, f.Subject, f.Data, f.Header)
		go func() {
			_, err := a.agents.Ask(t.Context(), r, bus.OnOpen(func(bus.Opened) { close(stored) }))
			done <- err
		}()
		asks[name] = done
		select {
		case <-stored:
		case err := <-done:
			t.Fatalf("a decision %s ended the ask: %v", name, err)
		}
	}
	for name, done := range asks {
		a.attack(t, "a decision "+name, func(t *testing.T) {
			select {
			case err := <-done:
				require.ErrorIs(t, err, bus.ErrNoDecision)
			case <-time.After(patience):
				t.Fatal("the asker did not come back")
			}
			rec := receiptOf(t, a.g, "default.agents."+id(name))
			require.NotEqual(t, hitl.Accepted, rec.Status)
			require.Nil(t, rec.Decision)
		})
	}
	a.settle()
}

func receiptOf(t *testing.T, g *running, key string) hitl.Receipt {
	t.Helper()
	_, raw := g.call("POST", "/api/interactions/"+key+"/decision", g.token, `{"decision":"deny","digest":"x"}`)
	var rec hitl.Receipt
	require.NoError(t, json.Unmarshal(raw, &rec), string(raw))
	return rec
}
