package relay_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

func asked(owner, id string, header ...string) *nats.Msg {
	m := &nats.Msg{Subject: "hitl.req.default." + owner + "." + id, Data: []byte("request"), Header: nats.Header{}}
	for i := 0; i < len(header); i += 2 {
		m.Header[header[i]] = []string{header[i+1]}
	}
	return m
}

// Each owner's requests wait in a line of their own, and the stream gets one of each in
// turn: behind whatever another one has sent, a request is the next but one. A line has
// its end, and who sends more reads that nothing was stored.
func TestEachOwnerHasItsTurn_B56(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var behind atomic.Bool
	behind.Store(true)
	nc := p.connect(bus.RoleGateway, "")
	r, err := relay.Start(relay.Options{Conn: nc, Behind: behind.Load})
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, nc.Flush())
	ada, bob := p.connect(bus.RoleOwner, "ada"), p.connect(bus.RoleOwner, "bob")
	answers, err := ada.SubscribeSync(ada.NewInbox())
	require.NoError(t, err)
	const total, line = 3000, 1024
	for i := range total {
		m := asked("ada", fmt.Sprint(i))
		m.Reply = answers.Subject
		require.NoError(t, ada.PublishMsg(m))
	}
	for range total - line { // they are refused at once
		m, err := answers.NextMsg(patience)
		require.NoError(t, err)
		require.Contains(t, string(m.Data), `"err_code":10167`)
	}
	mine, err := bob.SubscribeSync(bob.NewInbox())
	require.NoError(t, err)
	m := asked("bob", "one")
	m.Reply = mine.Subject
	require.NoError(t, bob.PublishMsg(m))
	require.NoError(t, bob.Flush())
	code, _ := tell(t, ada, asked("ada", "more"))
	require.Equal(t, 10167, code) // it came behind bob's
	behind.Store(false)
	got, err := mine.NextMsg(patience)
	require.NoError(t, err)
	require.Regexp(t, `"seq":[12]\b`, string(got.Data))
	for range line {
		m, err := answers.NextMsg(patience)
		require.NoError(t, err)
		require.Contains(t, string(m.Data), `"seq":`)
	}
	require.Len(t, p.allOf(journal.Requests), line+1)
}

// A withdrawal does not come before its request, and what was taken is stored also when
// its gateway ends.
func TestLettersKeepTheirOrderAndAreNotLost_B56(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ada := p.connect(bus.RoleOwner, "ada")
	const each = 300
	for round := range 3 {
		end := p.relay("", nil)
		for i := range each {
			id := fmt.Sprint(round*each + i)
			require.NoError(t, ada.PublishMsg(asked("ada", id)))
			require.NoError(t, ada.Publish("hitl.cxl.default.ada."+id, []byte("{}")))
		}
		require.NoError(t, ada.Flush())
		code, _ := tell(t, ada, asked("ada", fmt.Sprintf("end%d", round)))
		require.Zero(t, code)
		end()
	}
	var subjects []string
	for _, m := range p.allOf(journal.Requests) {
		if !strings.Contains(m.Subject, "end") {
			subjects = append(subjects, m.Subject)
		}
	}
	require.Len(t, subjects, 3*2*each)
	for i := range 3 * each {
		require.Equal(t, fmt.Sprint("hitl.req.default.ada.", i), subjects[2*i])
		require.Equal(t, fmt.Sprint("hitl.cxl.default.ada.", i), subjects[2*i+1])
	}
}

// Of a request's headers those are stored that the product uses, and nobody but a
// gateway says since when it waits.
func TestHeadersOfRequestsThatAreNotPassedOn_B56(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.relay("", nil)
	ada := p.connect(bus.RoleOwner, "ada")
	code, _ := tell(t, ada, asked("ada", "one", hitl.HeaderAttempt, "2", hitl.HeaderWorker, "w",
		wire.HeaderLeftAt, "2001-01-01T00:00:00Z", "Nats-Rollup", "all", "Status", "404", "X-Other", "x", relay.HeaderVia, "forged"))
	require.Zero(t, code)
	stored := p.allOf(journal.Requests)
	require.Len(t, stored, 1)
	require.Equal(t, nats.Header{hitl.HeaderAttempt: {"2"}, hitl.HeaderWorker: {"w"}}, stored[0].Header)
	code, text := tell(t, ada, asked("ada", "two", hitl.HeaderWorker, strings.Repeat("x", 2000)))
	require.Equal(t, wire.CodeRefused, code)
	require.Contains(t, text, hitl.HeaderWorker)
	code, text = tell(t, ada, asked("ada", "three", "X-Other", strings.Repeat("x", 5000)))
	require.Equal(t, wire.CodeRefused, code)
	require.Contains(t, text, "headers")
	code, _ = tell(t, ada, asked("ada", "one"))
	require.NotZero(t, code, "one request under a subject")
}

// What was left is stored with the time at which it was, once, whoever collects it; and
// what came first counts.
func TestForwardStoresWhatWasLeft(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	nc := p.connect(bus.RoleGateway, "")
	r, err := relay.Start(relay.Options{Conn: nc})
	require.NoError(t, err)
	defer r.Close()
	left := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	header := nats.Header{hitl.HeaderWorker: {"w"}, "Nats-Rollup": {"all"}, wire.HeaderLeftAt: {"2001-01-01T00:00:00Z"}}
	for range 2 {
		require.NoError(t, r.Forward(t.Context(), "hitl.box.default.ada.one.req", header, []byte("first"), left))
	}
	require.NoError(t, r.Forward(t.Context(), "hitl.box.default.ada.one.req", nil, []byte("second"), left))
	stored := p.allOf(journal.Requests)
	require.Len(t, stored, 1)
	require.Equal(t, "first", string(stored[0].Data))
	require.Equal(t, []string{"2026-01-02T03:04:05.000000006Z"}, stored[0].Header[wire.HeaderLeftAt])
	require.NotContains(t, stored[0].Header, "Nats-Rollup")
	m, err := journal.New(nc, journal.Options{}).Request(t.Context(), subject.NewRef("default", "ada", "one"))
	require.NoError(t, err)
	require.Equal(t, left, m.Time, "it is as old as it was then")

	// A condition of the owner's makes nothing that comes again for ever.
	poison := nats.Header{"Nats-Expected-Last-Subject-Sequence-Subject": {"hitl.req.default.ada.none"}}
	require.NoError(t, r.Forward(t.Context(), "hitl.box.default.ada.one.req", poison, []byte("third"), left))
	require.Len(t, p.allOf(journal.Requests), 1)

	for name, subj := range map[string]string{
		"another kind": "hitl.evt.default.ada.s", "neither request nor withdrawal": "hitl.box.default.ada.one.dec",
		"too long": "hitl.box.default.ada." + strings.Repeat("a", 70) + ".req", "not ours": "x",
	} {
		require.ErrorIs(t, r.Forward(t.Context(), subj, nil, []byte("x"), left), relay.ErrNotMeant, name)
	}
	err = r.Forward(t.Context(), "hitl.box.default.ada.large.req", nil, make([]byte, journal.MaxRequestMsg+1), left)
	require.ErrorIs(t, err, relay.ErrNotMeant)
	require.NoError(t, r.Forward(t.Context(), "hitl.box.default.ada.one.cxl", nil, []byte("{}"), left))
	require.Len(t, p.allOf(journal.Requests), 2)
}

// The acknowledgement of what was on its way to a stream's leader that died never comes:
// it does not keep the rest of an owner's line waiting, and one that comes late is
// handed on all the same.
func TestALostAcknowledgementHoldsNoLineUp_B48(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	link := &held{}
	var behind atomic.Bool
	behind.Store(true)
	nc := p.connect(bus.RoleGateway, "", nats.SetCustomDialer(link))
	r, err := relay.Start(relay.Options{Conn: nc, Behind: behind.Load})
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, nc.Flush())
	ada := p.connect(bus.RoleOwner, "ada")
	answers, err := ada.SubscribeSync(ada.NewInbox())
	require.NoError(t, err)
	const total = 50 // more than may be on its way
	before := nc.Stats().InMsgs
	for i := range total {
		m := asked("ada", fmt.Sprint(i))
		m.Reply = answers.Subject
		require.NoError(t, ada.PublishMsg(m))
	}
	require.Eventually(t, func() bool { return nc.Stats().InMsgs >= before+total }, patience, time.Millisecond)
	gate := make(chan struct{})
	link.set(gate) // from here on nothing is heard
	behind.Store(false)
	require.Eventually(t, func() bool { return len(p.allOf(journal.Requests)) == total }, patience, 10*time.Millisecond)
	link.set(nil)
	close(gate)
	for range total {
		m, err := answers.NextMsg(patience)
		require.NoError(t, err)
		require.Contains(t, string(m.Data), `"seq":`)
	}
}

// The trace context of a request is stored as a gateway writes it. What is none is
// left out, however long it is, and fails nothing.
func TestOnlyTraceContextIsStoredAsOne_B56(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.relay("", nil)
	ada := p.connect(bus.RoleOwner, "ada")
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	several := asked("ada", "4")
	several.Header[wire.HeaderTraceParent] = []string{parent, parent}
	for _, m := range []*nats.Msg{
		asked("ada", "0", wire.HeaderTraceParent, parent, wire.HeaderTraceState, " v=1 "),
		asked("ada", "1", "Traceparent", parent), // as libraries for HTTP write it
		asked("ada", "2", wire.HeaderTraceParent, parent, wire.HeaderTraceState, "a="+strings.Repeat("b", 3000)),
		asked("ada", "3", wire.HeaderTraceParent, parent+strings.Repeat("x", 4<<10)),
		several,
		asked("ada", "5", wire.HeaderTraceParent, "ALARM: forged"),
	} {
		code, text := tell(t, ada, m)
		require.Zero(t, code, text)
	}
	good := nats.Header{wire.HeaderTraceParent: {parent}}
	stored := p.allOf(journal.Requests)
	require.Len(t, stored, 6)
	require.Equal(t, nats.Header{wire.HeaderTraceParent: {parent}, wire.HeaderTraceState: {"v=1"}}, stored[0].Header)
	require.Equal(t, good, stored[1].Header)
	require.Equal(t, good, stored[2].Header)
	for _, m := range stored[3:] {
		require.Empty(t, m.Header, m.Subject)
	}
	code, _ := tell(t, ada, asked("ada", "6", wire.HeaderTraceParent, strings.Repeat("x", 9<<10)))
	require.Equal(t, wire.CodeRefused, code, "it is no way around the limit of headers")
}
