package journal_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

func streams(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}

func TestProvision(t *testing.T) {
	t.Parallel()
	nc := newNode(t).connect(t)
	cfg := journal.Config{Pools: []journal.Pool{{Tenant: "default", Pool: "agents"}}, Tenants: []string{"acme"}}
	err := journal.Check(t.Context(), nc, cfg)
	require.ErrorIs(t, err, journal.ErrDrift)
	for _, missing := range []string{
		"stream HITL_REQUESTS is missing", "stream HITL_DECISIONS is missing", "stream HITL_EVENTS is missing",
		"stream HITL_TRANSCRIPTS is missing", "stream HITL_WORK is missing", "stream KV_hitl_sessions is missing", "stream KV_hitl_users is missing", "stream KV_hitl_rules is missing", "stream KV_hitl_push is missing",
		"consumer intake of HITL_REQUESTS is missing", "consumer sweeper of HITL_DECISIONS is missing",
		"consumer notifier of HITL_EVENTS is missing", "consumer notifier-acme of HITL_EVENTS is missing",
		"consumer default-agents of HITL_WORK is missing",
	} {
		require.ErrorContains(t, err, missing)
	}
	for range 2 {
		require.NoError(t, journal.Provision(t.Context(), nc, cfg))
		require.NoError(t, journal.Check(t.Context(), nc, cfg))
	}
	// A key-value client can use the bucket.
	kv, err := streams(t, nc).KeyValue(t.Context(), journal.SessionsBucket)
	require.NoError(t, err)
	rev, err := kv.Create(t.Context(), "a", []byte("1"))
	require.NoError(t, err)
	_, err = kv.Update(t.Context(), "a", []byte("2"), rev)
	require.NoError(t, err)
	_, err = kv.Update(t.Context(), "a", []byte("3"), rev)
	require.Error(t, err)
	require.NoError(t, kv.Delete(t.Context(), "a"))
	status, err := kv.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, journal.SessionAge, status.TTL())
}

// A killed server could not read what it had packed.
func TestProvisionTakesCompressionOff(t *testing.T) {
	t.Parallel()
	nc := newNode(t).connect(t)
	require.NoError(t, journal.Provision(t.Context(), nc, journal.Config{}))
	js := streams(t, nc)
	s, err := js.Stream(t.Context(), journal.Decisions)
	require.NoError(t, err)
	require.Equal(t, jetstream.NoCompression, s.CachedInfo().Config.Compression)

	packed := s.CachedInfo().Config
	packed.Compression = jetstream.S2Compression
	_, err = js.UpdateStream(t.Context(), packed)
	require.NoError(t, err)
	require.ErrorContains(t, journal.Check(t.Context(), nc, journal.Config{}), "HITL_DECISIONS: compression")
	require.NoError(t, journal.Provision(t.Context(), nc, journal.Config{}))
	require.NoError(t, journal.Check(t.Context(), nc, journal.Config{}))
}

func TestProvisionKeepsWhatTheOperatorChose(t *testing.T) {
	t.Parallel()
	nc := newNode(t).connect(t)
	first := journal.Config{RecordAge: 48 * time.Hour, MaxBytes: map[string]int64{journal.Events: 1 << 30}}
	require.NoError(t, journal.Provision(t.Context(), nc, first))
	require.NoError(t, journal.Provision(t.Context(), nc, journal.Config{}))
	require.NoError(t, journal.Check(t.Context(), nc, first))
	require.NoError(t, journal.Check(t.Context(), nc, journal.Config{}))

	second := journal.Config{RecordAge: 72 * time.Hour, MaxBytes: map[string]int64{journal.Events: 2 << 30}}
	err := journal.Check(t.Context(), nc, second)
	require.ErrorIs(t, err, journal.ErrDrift)
	require.ErrorContains(t, err, "stream HITL_EVENTS: max_bytes is 1073741824, not 2147483648")
	require.ErrorContains(t, err, "stream HITL_DECISIONS: max_age is 172800000000000, not 259200000000000")
	require.NoError(t, journal.Provision(t.Context(), nc, second))
	require.NoError(t, journal.Check(t.Context(), nc, second))
}

// TestDrift changes one field that carries a guarantee at a time.
func TestDrift(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, stream string
		change       func(*jetstream.StreamConfig)
		want         string
	}{
		{"a second decision", journal.Decisions, func(c *jetstream.StreamConfig) {
			c.MaxMsgsPerSubject, c.DiscardNewPerSubject, c.Discard = -1, false, jetstream.DiscardOld
		}, "stream HITL_DECISIONS: max_msgs_per_subject is -1, not 1"},
		{"the oldest decision gives way", journal.Decisions, func(c *jetstream.StreamConfig) {
			c.Discard, c.DiscardNewPerSubject = jetstream.DiscardOld, false
		}, `stream HITL_DECISIONS: discard is "old", not "new"`},
		{"decisions go elsewhere", journal.Decisions, func(c *jetstream.StreamConfig) { c.RePublish = nil }, "stream HITL_DECISIONS: republish is null"},
		{"schedules", journal.Transcripts, func(c *jetstream.StreamConfig) { c.AllowMsgSchedules = true }, "stream HITL_TRANSCRIPTS: allow_msg_schedules is true, not off"},
		{"messages with a time to live", journal.Requests, func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true }, "stream HITL_REQUESTS: allow_msg_ttl is true, not off"},
		{"rollup", journal.Requests, func(c *jetstream.StreamConfig) { c.AllowRollup = true }, "stream HITL_REQUESTS: allow_rollup_hdrs is true, not off"},
		{"more subjects", journal.Transcripts, func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "other.>") }, "stream HITL_TRANSCRIPTS: subjects is"},
		{"no size limit", journal.Events, func(c *jetstream.StreamConfig) { c.MaxBytes = -1 }, "stream HITL_EVENTS: max_bytes is without limit"},
		{"no direct reads", journal.Requests, func(c *jetstream.StreamConfig) { c.AllowDirect = false }, "stream HITL_REQUESTS: allow_direct is false, not true"},
	} {
		t.Run("invariant 1: "+c.name, func(t *testing.T) {
			t.Parallel()
			_, nc := provisioned(t)
			js := streams(t, nc)
			s, err := js.Stream(t.Context(), c.stream)
			require.NoError(t, err)
			cfg := s.CachedInfo().Config
			c.change(&cfg)
			_, err = js.UpdateStream(t.Context(), cfg)
			require.NoError(t, err)
			err = journal.Check(t.Context(), nc, small)
			require.ErrorIs(t, err, journal.ErrDrift)
			require.ErrorContains(t, err, c.want)
			if c.name == "no size limit" {
				require.NoError(t, journal.Provision(t.Context(), nc, small), "a size is safe to change")
				require.NoError(t, journal.Check(t.Context(), nc, small))
				return
			}
			require.ErrorIs(t, journal.Provision(t.Context(), nc, small), journal.ErrDrift, "a lost guarantee is never repaired silently")
		})
	}
}

func TestDriftOfConsumers(t *testing.T) {
	t.Parallel()
	_, nc := provisioned(t)
	js := streams(t, nc)
	c, err := js.Consumer(t.Context(), journal.Requests, journal.IntakeConsumer)
	require.NoError(t, err)
	cfg := c.CachedInfo().Config
	cfg.FilterSubjects, cfg.FilterSubject, cfg.AckWait = nil, "hitl.req.t.>", time.Hour
	_, err = js.UpdateConsumer(t.Context(), journal.Requests, cfg)
	require.NoError(t, err)
	err = journal.Check(t.Context(), nc, small)
	require.ErrorIs(t, err, journal.ErrDrift)
	require.ErrorContains(t, err, `consumer intake of HITL_REQUESTS: ack_wait is 3600000000000, not 2000000000`)
	require.ErrorContains(t, err, `consumer intake of HITL_REQUESTS: filter_subjects is null, not ["hitl.req.>","hitl.cxl.>"]`)
	require.ErrorIs(t, journal.Provision(t.Context(), nc, small), journal.ErrDrift)

	cfg.FilterSubjects, cfg.FilterSubject = []string{"hitl.req.>", "hitl.cxl.>"}, ""
	_, err = js.UpdateConsumer(t.Context(), journal.Requests, cfg)
	require.NoError(t, err)
	require.NoError(t, journal.Provision(t.Context(), nc, small), "a time is safe to change")
	require.NoError(t, journal.Check(t.Context(), nc, small))
}

// TestStreamsEnforceTheirLimits holds against any writer, whatever it sends.
func TestStreamsEnforceTheirLimits_invariant1(t *testing.T) {
	t.Parallel()
	_, nc := provisioned(t)
	refused := func(subj string, header map[string][]string, body string) int {
		t.Helper()
		m, err := nc.RequestMsgWithContext(t.Context(), &nats.Msg{Subject: subj, Header: header, Data: []byte(body)})
		require.NoError(t, err)
		var reply struct {
			Error struct {
				Code int `json:"err_code"`
			} `json:"error"`
		}
		require.NoError(t, json.Unmarshal(m.Data, &reply), string(m.Data))
		return reply.Error.Code
	}
	const dec = "hitl.dec.t.o.i"
	inbox, err := nc.SubscribeSync("hitl.inbox.>")
	require.NoError(t, err)
	require.Zero(t, refused(dec, nil, "first"))
	require.Equal(t, 10077, refused(dec, nil, "second"))
	require.Equal(t, 10071, refused(dec, map[string][]string{"Nats-Expected-Last-Subject-Sequence": {"0"}}, "second"))
	require.NotZero(t, refused(dec, map[string][]string{"Nats-Rollup": {"sub"}}, "rollup"))
	require.NotZero(t, refused(dec, map[string][]string{"Nats-Rollup": {"all"}}, "rollup"))
	require.NotZero(t, refused("$JS.API.STREAM.MSG.DELETE.HITL_DECISIONS", nil, `{"seq":1}`))
	require.NotZero(t, refused("$JS.API.STREAM.PURGE.HITL_DECISIONS", nil, ""))
	require.NotZero(t, refused("$JS.API.STREAM.MSG.DELETE.HITL_EVENTS", nil, `{"seq":1}`))
	require.Zero(t, refused("hitl.req.t.o.i", nil, "ask"))
	require.NotZero(t, refused("hitl.req.t.o.i", nil, "ask again"))
	require.Equal(t, 10054, refused("hitl.req.t.o.large", nil, strings.Repeat("x", journal.MaxRequestMsg+1)))

	m, err := inbox.NextMsg(patience)
	require.NoError(t, err)
	require.Equal(t, "hitl.inbox.t.o.i", m.Subject)
	require.Equal(t, "first", string(m.Data))
	require.NoError(t, nc.Flush())
	n, _, err := inbox.Pending()
	require.NoError(t, err)
	require.Zero(t, n, "a refused decision is not republished")
}

// TestLargestDecisionFits decides the largest request with the largest content.
func TestLargestDecisionFits_invariant11(t *testing.T) {
	t.Parallel()
	_, nc := provisioned(t)
	j := journal.New(nc, journal.Options{Signer: newKey(t)})
	ref := subject.NewRef("t", "o", "i")
	d := decision("d")
	d.RequestB64 = strings.Repeat("A", (hitl.MaxRequest+2)/3*4)
	d.Message = strings.Repeat("<", hitl.MaxContent-100)
	_, won, err := j.Decide(t.Context(), ref, d)
	require.NoError(t, err)
	require.True(t, won)
	got, err := j.Decision(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, d, got.Decision)

	d.Message += strings.Repeat("x", 256<<10)
	_, _, err = j.Decide(t.Context(), subject.NewRef("t", "o", "j"), d)
	require.ErrorContains(t, err, "the limit is")
}

// TestNames holds the names that credentials are made for.
func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "notifier", journal.NotifierDurable("default"))
	require.Equal(t, "notifier-acme", journal.NotifierDurable("acme"))
	names := map[string]bool{}
	for _, p := range []journal.Pool{{"a", "b-c"}, {"a-b", "c"}, {"a", "b"}} {
		names[subject.WorkConsumer(p.Tenant, p.Pool)] = true
	}
	require.Len(t, names, 3, "different pools never share a consumer")
}
