package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
)

func TestAskReturnsTheDecisionForExactlyItsRequest_D4_05(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	r := keyed("k", `{"command": "ls", "n": 9007199254740993.0}`)
	a := ask(t, c, r)
	o := a.open(t)
	require.Equal(t, subject.NewRef("default", "agents", hitl.ID("default", "agents", "k", 1)), o.Ref)
	require.False(t, o.Again)
	m := n.stored(t, "HITL_REQUESTS", subject.Request(o.Ref))
	require.Equal(t, o.Request, m.Data)
	require.Equal(t, "1", m.Header.Get(hitl.HeaderAttempt))
	require.Equal(t, "w1", m.Header.Get(hitl.HeaderWorker))
	require.Empty(t, m.Header.Get("Nats-Msg-Id"), "deduplication by message id is stream-wide")
	a.waiting(t)

	d := n.decide(t, o.Ref, hitl.Content{Outcome: hitl.Denied, Message: "no"})
	ans, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, d.DecisionID, ans.Decision.DecisionID)
	require.Equal(t, hitl.Denied, ans.Decision.Outcome)
	require.Equal(t, "no", ans.Decision.Message)
	require.Equal(t, hitl.Digest(ans.Request), ans.Decision.Digest)
	require.Equal(t, m.Data, ans.Request)
	require.Equal(t, o.Ref, ans.Ref)
	require.Equal(t, 1, ans.Attempt)
	require.Contains(t, string(ans.Request), "9007199254740993.0")
	require.Equal(t, "", r.ID, "the caller's request is its own")
}

func TestAskFindsADecisionWhoseMessageWasLost(t *testing.T) {
	t.Parallel()
	n := newNode(t, noRepublish)
	a := ask(t, n.owner(t), approval(`{}`))
	n.decide(t, a.open(t).Ref, hitl.Content{Outcome: hitl.Allowed})
	ans, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, ans.Decision.Outcome)
}

func TestAskSurvivesAServerRestart_B_48_invariant3(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	var asks []*asking
	var refs []subject.Ref
	for i := range 3 {
		a := ask(t, c, keyed(numbered("k", i), `{}`))
		refs = append(refs, a.open(t).Ref)
		asks = append(asks, a)
	}
	n.srv.Shutdown()
	late := ask(t, c, keyed("late", `{}`)) // asked while there is no server
	n.start(t)
	require.Eventually(t, n.core.IsConnected, patience, 10*time.Millisecond)
	for i := range asks {
		asks[i].waiting(t)
		n.decide(t, refs[i], hitl.Content{Outcome: hitl.Allowed, Message: numbered("m", i)})
	}
	n.decide(t, late.open(t).Ref, hitl.Content{Outcome: hitl.Denied})
	for i := range asks {
		ans, err := asks[i].wait(t)
		require.NoError(t, err)
		require.Equal(t, numbered("m", i), ans.Decision.Message)
	}
	ans, err := late.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Denied, ans.Decision.Outcome)
}

// Without republish and with all early reads behind it, only the read after a
// reconnect can find the decision within the test's patience.
func TestAskReadsTheRecordAfterAReconnect(t *testing.T) {
	t.Parallel()
	n := newNode(t, noRepublish)
	d := &deafDialer{}
	a := ask(t, n.owner(t, nats.SetCustomDialer(d)), approval(`{}`))
	ref := a.open(t).Ref
	seen := 0
	watch, err := n.core.SubscribeSync("$JS.API.DIRECT.GET.HITL_DECISIONS.>")
	require.NoError(t, err)
	require.NoError(t, n.core.Flush())
	// The read at five seconds is the last for thirty.
	for deadline := time.Now().Add(7 * time.Second); ; {
		m, err := watch.NextMsg(time.Until(deadline))
		if err != nil {
			break
		}
		if m != nil {
			seen++
		}
	}
	require.Positive(t, seen)
	n.decide(t, ref, hitl.Content{Outcome: hitl.Allowed})
	a.waiting(t)
	started := time.Now()
	d.cut()
	_, err = a.wait(t)
	require.NoError(t, err)
	require.Less(t, time.Since(started), 15*time.Second)
}

func TestSameKeySameContentIsOneInteraction_B_06_B_55(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	first, second := n.owner(t), n.owner(t)
	a := ask(t, first, keyed("k", `{"a":1,"b":[2,{"c":3,"d":4}]}`))
	b := ask(t, second, keyed("k", `{"b": [2, {"d":4, "c":3}], "a":1}`)) // other key order
	oa, ob := a.open(t), b.open(t)
	require.Equal(t, oa.Ref, ob.Ref)
	require.NotEqual(t, oa.Again, ob.Again, "one asks, the other joins")
	require.Equal(t, oa.Request, ob.Request, "both hold the bytes that are stored")
	require.Equal(t, 1, n.count(t, "HITL_REQUESTS", "hitl.req.>"))
	n.decide(t, oa.Ref, hitl.Content{Outcome: hitl.Allowed})
	for _, x := range []*asking{a, b} {
		ans, err := x.wait(t)
		require.NoError(t, err)
		require.Equal(t, hitl.Allowed, ans.Decision.Outcome)
		require.Equal(t, hitl.Digest(ans.Request), ans.Decision.Digest)
	}
	// Decided and gone from the open set: asking once more reads the record.
	again := ask(t, second, keyed("k", `{"b":[2,{"d":4,"c":3}],"a":1}`))
	ans, err := again.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, ans.Decision.Outcome)
	require.Equal(t, oa.Request, ans.Request)
	require.Empty(t, again.opened, "nobody is told that it waits")
}

func TestOtherContentUnderAKeyIsAConflict_B_55(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	a := ask(t, c, keyed("k", `{"n":1}`))
	ref := a.open(t).Ref
	other := map[string]*hitl.Request{
		"1 and 1.0":          keyed("k", `{"n":1.0}`),
		"another value":      keyed("k", `{"n":2}`),
		"absent and present": keyed("k", `{"n":1,"purge":true}`),
		"default written":    lasting(keyed("k", `{"n":1}`), hitl.DefaultExpiresIn),
	}
	for name, r := range other {
		_, err := ask(t, c, r).wait(t)
		require.ErrorIs(t, err, bus.ErrKeyConflict, name)
	}
	a.waiting(t)
	n.decide(t, ref, hitl.Content{Outcome: hitl.Allowed})
	_, err := a.wait(t)
	require.NoError(t, err)
	for name, r := range other {
		_, err := ask(t, c, r).wait(t)
		require.ErrorIs(t, err, bus.ErrKeyConflict, name+", after the decision")
	}
}

func TestForgedDecisionsAreIgnored_invariant2(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c, log := n.client(t, bus.RoleOwner, "agents")
	elsewhere := ask(t, c, approval(`{"other":true}`))
	other := elsewhere.open(t).Ref
	for name, forge := range map[string]func(subject.Ref, *hitl.Decision) *nats.Msg{
		"unsigned": func(ref subject.Ref, d *hitl.Decision) *nats.Msg {
			m := n.signed(t, ref, d)
			m.Header = nats.Header{}
			return m
		},
		"changed after signing": func(ref subject.Ref, d *hitl.Decision) *nats.Msg {
			m := n.signed(t, ref, n.decision(t, ref, hitl.Content{Outcome: hitl.Denied}))
			m.Data = n.signed(t, ref, d).Data
			return m
		},
		"moved from another interaction": func(subject.Ref, *hitl.Decision) *nats.Msg {
			return n.signed(t, other, n.decision(t, other, hitl.Content{Outcome: hitl.Allowed}))
		},
		"of another interaction by its own word": func(ref subject.Ref, d *hitl.Decision) *nats.Msg {
			d.InteractionID = other.ID
			return n.signed(t, ref, d)
		},
		"of an unknown outcome": func(ref subject.Ref, d *hitl.Decision) *nats.Msg {
			d.Outcome = "sure"
			return n.signed(t, ref, d)
		},
	} {
		a := ask(t, c, approval(`{}`))
		ref := a.open(t).Ref
		m := forge(ref, n.decision(t, ref, hitl.Content{Outcome: hitl.Allowed}))
		m.Subject = subject.Inbox(ref)
		m.Header.Del("Nats-Expected-Last-Subject-Sequence")
		require.NoError(t, n.core.PublishMsg(m))
		require.Eventually(t, func() bool {
			select {
			case <-a.done:
				return true
			default:
				return strings.Contains(log.String(), "ALARM") && strings.Contains(log.String(), ref.ID)
			}
		}, patience, 5*time.Millisecond, name)
		a.waiting(t)
		n.decide(t, ref, hitl.Content{Outcome: hitl.Denied})
		ans, err := a.wait(t)
		require.NoError(t, err, name)
		require.Equal(t, hitl.Denied, ans.Decision.Outcome, name)
	}
}

func TestAnUnsignedRecordIsNoDecision(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c, log := n.client(t, bus.RoleOwner, "agents")
	a := ask(t, c, lasting(approval(`{}`), time.Millisecond))
	ref := a.open(t).Ref
	m := n.signed(t, ref, n.decision(t, ref, hitl.Content{Outcome: hitl.Allowed}))
	m.Header = nats.Header{}
	n.write(t, m)
	_, err := a.wait(t)
	require.ErrorIs(t, err, bus.ErrNoDecision)
	require.Contains(t, log.String(), "ALARM")
}

func TestADecisionForOtherBytesIsRefused_B_55_invariant5(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	for name, change := range map[string]func(*hitl.Decision){
		"other digest":             func(d *hitl.Decision) { d.Digest = hitl.Digest([]byte("x")) },
		"other digest, no request": func(d *hitl.Decision) { d.Digest, d.RequestB64 = hitl.Digest([]byte("x")), "" },
		"other request": func(d *hitl.Decision) {
			_, raw, err := c.Encode(keyed("k", `{"evil":true}`), 1)
			require.NoError(t, err)
			d.Digest, d.RequestB64 = hitl.Digest(raw), b64(raw)
		},
	} {
		a := ask(t, c, approval(`{"command":"ls"}`))
		ref := a.open(t).Ref
		d := n.decision(t, ref, hitl.Content{Outcome: hitl.Allowed})
		change(d)
		n.write(t, n.signed(t, ref, d))
		ans, err := a.wait(t)
		require.ErrorIs(t, err, bus.ErrBadDecision, name)
		require.Nil(t, ans, name)
	}
}

func TestNoDecisionInTime_invariant4(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	started := time.Now()
	a := ask(t, c, lasting(keyed("k", `{}`), 100*time.Millisecond), bus.Keep())
	ref := a.open(t).Ref
	ans, err := a.wait(t)
	require.Nil(t, ans)
	require.ErrorIs(t, err, bus.ErrNoDecision)
	require.GreaterOrEqual(t, time.Since(started), 5*time.Second, "the server's own deadline comes first")
	var w *bus.WaitError
	require.ErrorAs(t, err, &w)
	require.Equal(t, ref, w.Ref)
	require.True(t, w.Stored)
	require.False(t, w.Open)
	c.Close()
	require.NotNil(t, n.stored(t, "HITL_REQUESTS", subject.Withdraw(ref)))
}

func TestTheLongestDeadlineIsNoShortOne(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := keyed("k", `{}`)
	d := hitl.Duration(math.MaxInt64)
	r.ExpiresIn = &d
	a := ask(t, n.owner(t), r)
	n.decide(t, a.open(t).Ref, hitl.Content{Outcome: hitl.Allowed})
	ans, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, ans.Decision.Outcome)
}

func TestNoServerIsNoDecision_invariant4(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	n.srv.Shutdown()
	_, err := c.Ask(t.Context(), lasting(approval(`{}`), 10*time.Millisecond))
	require.ErrorIs(t, err, bus.ErrNoDecision)
	var w *bus.WaitError
	require.ErrorAs(t, err, &w)
	require.False(t, w.Stored)
}

func TestExpiredIsADecision(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	a := ask(t, n.owner(t), lasting(approval(`{}`), time.Millisecond))
	n.decide(t, a.open(t).Ref, hitl.Content{Outcome: hitl.Expired})
	ans, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Expired, ans.Decision.Outcome)
}

func TestContextEnd_D0_10_C13(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	boom := errors.New("boom")
	for _, tt := range []struct {
		name     string
		key      string
		keep     bool
		cause    error
		withdraw bool
		shutdown bool
	}{
		{"withdraws", "", false, nil, true, false},
		{"withdraws a keyed one too", "a", false, boom, true, false},
		{"keep leaves a keyed one open", "b", true, nil, false, false},
		{"keep is nothing without a key", "", true, nil, true, false},
		{"shutdown leaves a keyed one open", "c", false, bus.ErrShutdown, false, false},
		{"shutdown withdraws one without a key", "", false, bus.ErrShutdown, true, true},
	} {
		c := n.owner(t)
		var opts []bus.AskOption
		if tt.keep {
			opts = append(opts, bus.Keep())
		}
		a := ask(t, c, keyed(tt.key, `{}`), opts...)
		ref := a.open(t).Ref
		a.cancel(tt.cause)
		_, err := a.wait(t)
		require.ErrorIs(t, err, context.Canceled, tt.name)
		require.ErrorIs(t, err, bus.ErrStopped, tt.name)
		if tt.cause != nil {
			require.ErrorIs(t, err, tt.cause, tt.name)
		}
		var w *bus.WaitError
		require.ErrorAs(t, err, &w)
		require.Equal(t, !tt.withdraw, w.Open, tt.name)
		c.Close() // waits for the withdrawal
		m := n.stored(t, "HITL_REQUESTS", subject.Withdraw(ref))
		require.Equal(t, tt.withdraw, m != nil, tt.name)
		if m != nil {
			require.Equal(t, tt.shutdown, contains(m.Data, `"shutdown":true`), tt.name)
		}
		require.NotNil(t, n.stored(t, "HITL_REQUESTS", subject.Request(ref)), tt.name)
	}
}

func TestCloseEndsAsks(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	a, k := ask(t, c, approval(`{}`)), ask(t, c, keyed("k", `{}`))
	ref, kept := a.open(t).Ref, k.open(t).Ref
	c.Close()
	for _, x := range []*asking{a, k} {
		_, err := x.wait(t)
		require.ErrorIs(t, err, bus.ErrClosed)
	}
	require.NotNil(t, n.stored(t, "HITL_REQUESTS", subject.Withdraw(ref)))
	require.Nil(t, n.stored(t, "HITL_REQUESTS", subject.Withdraw(kept)))
	_, err := c.Ask(t.Context(), approval(`{}`))
	require.ErrorIs(t, err, bus.ErrClosed)
}

func TestAKeyOutlivesAttemptsThatNobodyDecided(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	for i, tt := range []struct {
		name    string
		content hitl.Content
		again   bool
	}{
		{"orphaned", hitl.Content{Outcome: hitl.Orphaned}, true},
		{"withdrawn by a shutdown", hitl.Content{Outcome: hitl.Cancelled, Comment: hitl.ShutdownComment}, true},
		{"withdrawn", hitl.Content{Outcome: hitl.Cancelled}, false},
		{"denied", hitl.Content{Outcome: hitl.Denied}, false},
		{"expired", hitl.Content{Outcome: hitl.Expired}, false},
	} {
		key := numbered("k", i)
		a := ask(t, c, keyed(key, `{}`))
		first := a.open(t)
		n.decide(t, first.Ref, tt.content)
		ans, err := a.wait(t)
		require.NoError(t, err, tt.name)
		require.Equal(t, tt.content.Outcome, ans.Decision.Outcome, "the asking that waited is told")

		b := ask(t, c, keyed(key, `{}`))
		if !tt.again {
			ans, err = b.wait(t)
			require.NoError(t, err)
			require.Equal(t, tt.content.Outcome, ans.Decision.Outcome, tt.name)
			require.Equal(t, 1, ans.Attempt)
			continue
		}
		second := b.open(t)
		require.Equal(t, 2, second.Attempt, tt.name)
		require.Equal(t, hitl.ID("default", "agents", key, 2), second.Ref.ID)
		require.Equal(t, "2", n.stored(t, "HITL_REQUESTS", subject.Request(second.Ref)).Header.Get(hitl.HeaderAttempt))
		n.decide(t, second.Ref, hitl.Content{Outcome: hitl.Allowed})
		ans, err = b.wait(t)
		require.NoError(t, err)
		require.Equal(t, hitl.Allowed, ans.Decision.Outcome, tt.name)
		require.Equal(t, 2, ans.Attempt)
	}
}

func TestHundredParallelAsks_D0_08_B_43(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	const all = 100
	asks := make([]*asking, all)
	for i := range asks {
		asks[i] = ask(t, c, approval(fmt.Sprintf(`{"i":%d}`, i)))
	}
	for i := all - 1; i >= 0; i-- { // the last first
		n.decide(t, asks[i].open(t).Ref, hitl.Content{Outcome: hitl.Denied, Message: numbered("m", i)})
	}
	for i, a := range asks {
		ans, err := a.wait(t)
		require.NoError(t, err)
		require.Equal(t, numbered("m", i), ans.Decision.Message)
		require.Contains(t, string(ans.Request), fmt.Sprintf(`{"i":%d}`, i))
	}
}

// The server stores the request, and its acknowledgement is lost.
func TestALostAcknowledgementIsReadBack_invariant7(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := &deafDialer{}
	c := n.owner(t, nats.SetCustomDialer(d))
	d.arm("hitl.req.")
	a := ask(t, c, approval(`{}`))
	stored := func() bool { return n.count(t, "HITL_REQUESTS", "hitl.req.>") == 1 }
	require.Eventually(t, stored, patience, 5*time.Millisecond)
	d.cut()
	o := a.open(t)
	require.True(t, o.Again, "the second try finds the first")
	require.True(t, stored())
	n.decide(t, o.Ref, hitl.Content{Outcome: hitl.Allowed})
	ans, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, ans.Decision.Outcome)
}

// A request that the server took and never acknowledged is withdrawn.
func TestAnUncertainRequestIsWithdrawn(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := &deafDialer{}
	c := n.owner(t, nats.SetCustomDialer(d))
	d.arm("hitl.req.")
	a := ask(t, c, approval(`{}`))
	require.Eventually(t, func() bool { return n.count(t, "HITL_REQUESTS", "hitl.req.>") == 1 }, patience, 5*time.Millisecond)
	a.cancel(nil)
	_, err := a.wait(t)
	var w *bus.WaitError
	require.ErrorAs(t, err, &w)
	require.False(t, w.Stored)
	require.False(t, w.Open)
	d.cut()
	require.Eventually(t, func() bool { return n.count(t, "HITL_REQUESTS", subject.Withdraw(w.Ref)) == 1 }, patience, 5*time.Millisecond)
}

func TestWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	big := make([]byte, hitl.MaxRequest)
	for i := range big {
		big[i] = 'x'
	}
	_, err := c.Ask(t.Context(), approval(`{"content":"`+string(big)+`"}`))
	var large *bus.TooLargeError
	require.ErrorAs(t, err, &large)
	require.Equal(t, hitl.MaxRequest, large.Limit)
	require.Greater(t, large.Size, hitl.MaxRequest)

	var invalid *hitl.InvalidError
	_, err = c.Ask(t.Context(), approval(`{"a":1,"a":2}`))
	require.ErrorAs(t, err, &invalid)
	require.Contains(t, err.Error(), "tool.input.a")
	untitled := approval(`{}`)
	untitled.Title = ""
	_, err = c.Ask(t.Context(), untitled)
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "title", invalid.Fields[0].Field)
	require.Zero(t, n.count(t, "HITL_REQUESTS", ">"))
}

// The largest request, and the decision that carries it, fit.
func TestTheLargestRequestCanBeSettled_invariant11(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	_, raw, err := c.Encode(keyed("k", `{"content":""}`), 1)
	require.NoError(t, err)
	filler := bytes.Repeat([]byte("<"), hitl.MaxRequest-len(raw))
	a := ask(t, c, keyed("k", `{"content":"`+string(filler)+`"}`))
	o := a.open(t)
	require.Len(t, o.Request, hitl.MaxRequest)
	n.decide(t, o.Ref, hitl.Content{Outcome: hitl.Allowed, Message: string(filler[:hitl.MaxContent-1<<10])})
	ans, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, ans.Decision.Outcome)
	require.Len(t, ans.Request, hitl.MaxRequest)
}

func TestASmallServerTakesSmallRequests(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.srv.Shutdown()
	conf := natsd.ConfigFile(n.dir)
	text, err := os.ReadFile(conf)
	require.NoError(t, err)
	small := strings.Replace(string(text), fmt.Sprintf("max_payload: %d", natsd.MaxPayload), "max_payload: 1048576", 1)
	require.NotEqual(t, string(text), small)
	require.NoError(t, os.WriteFile(conf, []byte(small), 0o600))
	n.start(t)
	c := n.owner(t)
	_, err = c.Ask(t.Context(), approval(`"`+strings.Repeat("x", 400<<10)+`"`))
	var large *bus.TooLargeError
	require.ErrorAs(t, err, &large)
	require.Equal(t, (1<<20-64<<10)/3, large.Limit)
}

func TestAForbiddenAskSaysSo(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c, _ := n.client(t, bus.RoleCaller, "ci")
	started := time.Now()
	_, err := c.Ask(t.Context(), approval(`{}`))
	require.ErrorIs(t, err, bus.ErrForbidden)
	require.Less(t, time.Since(started), 4*time.Second, "not by way of a timeout")
}

func TestAcksAndWithdrawalsCountOnce_B_49_D1_17(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	ref := subject.NewRef("default", "agents", "i1")
	require.NoError(t, c.Ack(t.Context(), ref, hitl.Delivered, "d1", ""))
	require.NoError(t, c.Ack(t.Context(), ref, hitl.Delivered, "d1", "again"))
	require.NoError(t, c.Ack(t.Context(), ref, hitl.Refused, "d1", "the tool is gone"))
	require.Equal(t, 1, n.count(t, "HITL_TRANSCRIPTS", subject.Ack(ref, hitl.Delivered)))
	require.Contains(t, string(n.stored(t, "HITL_TRANSCRIPTS", subject.Ack(ref, hitl.Delivered)).Data), `"decision_id":"d1"`)
	require.Contains(t, string(n.stored(t, "HITL_TRANSCRIPTS", subject.Ack(ref, hitl.Refused)).Data), "the tool is gone")

	require.NoError(t, c.Withdraw(t.Context(), ref, hitl.Withdrawal{Reason: "first"}))
	require.NoError(t, c.Withdraw(t.Context(), ref, hitl.Withdrawal{Reason: "second"}))
	require.Contains(t, string(n.stored(t, "HITL_REQUESTS", subject.Withdraw(ref)).Data), "first")
}
