package engine

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// sessionState is a worker's word on s1, as bytes that it may have chosen.
func sessionState(change map[string]any) []byte {
	st := map[string]any{
		"v": 1, "session_id": "s1", "tenant": "default", "owner": "agents", "worker": "w", "generation": 1,
		"runtime": "demo", "state": "user_turn",
		"started_at": "2026-11-27T10:00:00Z", "state_changed_at": "2026-11-27T10:00:00Z",
	}
	for k, v := range change {
		st[k] = v
	}
	raw, err := json.Marshal(st)
	if err != nil {
		panic(err)
	}
	return raw
}

func TestTimesThatCannotBeWrittenDoNotEndTheGateway(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"2026-01-01T00:00:00+24:00", "9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00+23:00"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e, stop := w.gateway()
			var rec recorder
			watch := e.Watch("", rec.add)
			defer watch.Stop()
			nc := w.connect()
			raw := sessionState(map[string]any{"started_at": at, "state_changed_at": at})
			w.store(nc, subject.State(subject.NewSession("default", "agents", "s1")), raw)
			require.Eventually(t, func() bool { return rec.last(s1) != nil }, patience, time.Millisecond)
			stop()
			e, _ = w.gateway() // and it starts again
			_, err := hitl.Marshal(e.Sessions())
			require.NoError(t, err)
			require.Len(t, e.Sessions(), 1)
		})
	}
}

func TestAgentsTextsAreDisplayTextWhereverTheyStand_B54(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	var rec recorder
	watch := e.Watch("", rec.add)
	defer watch.Stop()
	nc := w.connect()
	key := subject.NewSession("default", "agents", "s1")
	const bidi = "a\u202Eb"
	state := map[string]any{}
	for _, name := range []string{"title", "cwd", "project_id", "runtime", "mode", "model", "error", "kill_reason"} {
		state[name] = bidi
	}
	w.store(nc, subject.State(key), sessionState(state))
	event := func(kind string, data any) {
		raw, err := json.Marshal(map[string]any{"v": 1, "type": kind, "data": data})
		require.NoError(t, err)
		w.store(nc, subject.Transcript(key), raw)
	}
	event(hitl.EventToolResult, map[string]any{
		"tool_call_id": bidi, "content": []any{map[string]any{"type": "text", "text": "⟦" + bidi, "n": json.Number("1.0")}},
	})
	event(hitl.EventToolCallStart, map[string]any{"tool_call_id": "c", "tool_name": bidi})
	event(hitl.EventToolCallEnd, map[string]any{"tool_call_id": "c", "tool_name": "X", "input": map[string]any{"x": bidi}})
	r := request("k1")
	w.ask(nc, r)
	w.store(nc, subject.Withdraw(ref(r)), []byte(`{"v":1,"reason":"`+bidi+`"}`))

	shown := func() string {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		var b strings.Builder
		for _, u := range rec.updates {
			b.Write(u.All)
			for _, ev := range u.Events {
				b.WriteString(ev.Type)
				b.Write(ev.Data)
			}
		}
		return b.String()
	}
	require.Eventually(t, func() bool {
		s := shown()
		return strings.Contains(s, hitl.EventToolCallEnd) && strings.Contains(s, `"outcome":"cancelled"`)
	}, patience, time.Millisecond)
	all := shown()
	require.NotContains(t, strings.ReplaceAll(all, `"tool_call_id":"`+bidi, ""), "\u202E", "only ids stay as they are")
	require.Contains(t, all, `"text":"⟦U+27E6⟧a⟦U+202E⟧b"`)
	require.Contains(t, all, `"n":1.0`, "numbers stay as they were written")
	require.NotContains(t, all, "U+27E6⟧U+202E", "nothing is made visible twice")
	var last wire.ProcessState
	require.NotNil(t, rec.last(s1))
	last = *rec.last(s1)
	require.Equal(t, "a⟦U+202E⟧b", last.Cwd)
	require.Equal(t, "a⟦U+202E⟧b", last.Title)
}

func TestAHeartbeatCannotFloodTheListOfRuntimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	many := make([]string, 300_000)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	raw, err := json.Marshal(hitl.Beat{V: 1, Worker: "w", Runtimes: append([]string{"demo", "a\u202Eb"}, many...)})
	require.NoError(t, err)
	require.NoError(t, nc.Publish(subject.Beat("default", "agents", "w"), raw))
	require.Eventually(t, func() bool { return len(e.Runtimes()) > 0 }, patience, time.Millisecond)
	got := e.Runtimes()
	require.LessOrEqual(t, len(got), 16)
	require.Contains(t, got, "demo")
	require.NotContains(t, got, "a\u202Eb")
}

func TestAcksCountForTheDecisionTheyName_B49(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	var rec recorder
	watch := e.Watch("", rec.add)
	defer watch.Stop()
	nc := w.connect()
	r := request("k1")
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	ack := func(stage, decision string) {
		body, err := hitl.Marshal(hitl.Ack{V: 1, Stage: stage, DecisionID: decision})
		require.NoError(t, err)
		w.store(nc, subject.Ack(ref(r), stage), body)
	}
	ack(hitl.Applied, "none yet")
	heard(t, e, 1)
	got := e.Decide(t.Context(), answer(r, raw, "ada", allow))
	require.Equal(t, hitl.Accepted, got.Status)
	ack(hitl.Refused, "another")
	ack(hitl.Delivered, got.Decision.DecisionID)
	require.Eventually(t, func() bool {
		list, err := e.Interactions(t.Context(), wire.StateClosed, 0)
		return err == nil && len(list) == 1 && len(list[0].Trail) == 1 && list[0].Trail[0].Stage == hitl.Delivered
	}, patience, time.Millisecond)
	trail := outcome(t, e, r).Trail
	require.Len(t, trail, 1, "an ack before the decision, or of another one, is none: %v", trail)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, u := range rec.updates {
		var d wire.Delivery
		if json.Unmarshal(u.All, &d) == nil && d.Type == wire.TypeDelivery {
			require.Equal(t, got.Decision.DecisionID, d.DecisionID)
		}
	}
}

// heard waits until a gateway has read so many messages of the transcripts.
func heard(t *testing.T, e *Engine, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return e.view.Position().Transcripts == n }, patience, time.Millisecond)
}

func TestAnAckBeforeTheClosedEventIsKept_B49(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	r := request("k1")
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	body, err := hitl.Marshal(hitl.Ack{V: 1, Stage: hitl.Delivered, DecisionID: "d1"})
	require.NoError(t, err)
	w.store(nc, subject.Ack(ref(r), hitl.Delivered), body)
	heard(t, e, 1)
	// Another gateway decides: the asker had it before this one hears of it.
	_, won, err := w.journal(nc).Decide(t.Context(), ref(r), &hitl.Decision{
		V: 1, DecisionID: "d1", InteractionID: r.ID, Digest: hitl.Digest(raw), Content: hitl.Content{Outcome: hitl.Denied},
		Principal: person("ada"), DecidedAt: time.Now(), RequestSeq: 1, RequestedAt: time.Now(),
		RequestB64: base64.StdEncoding.EncodeToString(raw),
	})
	require.NoError(t, err)
	require.True(t, won)
	require.Eventually(t, func() bool {
		list, err := e.Interactions(t.Context(), wire.StateClosed, 0)
		return err == nil && len(list) == 1 && len(list[0].Trail) == 1 && list[0].Trail[0].Stage == hitl.Delivered
	}, patience, time.Millisecond)
}

// publishRaw sends a message with a header block that no client library would
// write.
func publishRaw(t *testing.T, addr, subj, header string, body []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	header = "NATS/1.0\r\n" + header + "\r\n\r\n"
	_, err = fmt.Fprintf(conn, "CONNECT {\"headers\":true,\"verbose\":false}\r\nHPUB %s %d %d\r\n%s%s\r\nPING\r\n",
		subj, len(header), len(header)+len(body), header, body)
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		require.NotContains(t, line, "-ERR")
		if strings.HasPrefix(line, "PONG") {
			return
		}
	}
}

// Two readers of one message may read a broken header in two ways. What is
// shown must be decidable all the same, and must end at its deadline.
func TestWhatIsShownCanBeSettledWhateverItsHeaders_invariant11(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	big := func(key string, change ...func(*hitl.Request)) *hitl.Request {
		return request(key, append(change, func(r *hitl.Request) { r.Message = strings.Repeat("m", wire.MaxInline) })...)
	}
	for name, r := range map[string]*hitl.Request{
		"decided": big("k1"), "expires": big("k2", expiring(100*time.Millisecond)), "withdrawn": big("k3"),
	} {
		raw, err := hitl.Marshal(r)
		require.NoError(t, err)
		publishRaw(t, w.srv.Addr().String(), subject.Request(ref(r)), "no colon here\r\nHitl-Attempt: 5", raw)
		switch name {
		case "decided":
			pending(t, e, r.ID)
			rec := e.Decide(t.Context(), answer(r, raw, "ada", deny))
			require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
		case "withdrawn":
			w.store(w.connect(), subject.Withdraw(ref(r)), []byte(`{"v":1}`))
		}
		want := map[string]hitl.Outcome{"decided": hitl.Denied, "expires": hitl.Expired, "withdrawn": hitl.Cancelled}[name]
		require.Equal(t, want, outcome(t, e, r).Outcome)
	}
}

func TestARefusedRequestDoesNotMakeAnIdAmbiguous_B01(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	r := request("k1")
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
	// Another owner sends rubbish under the same id.
	theirs := subject.NewRef("default", "cli", r.ID)
	w.store(nc, subject.Request(theirs), []byte(`{"v":1}`))
	require.Eventually(t, func() bool {
		list, err := e.Interactions(t.Context(), wire.StateClosed, 0)
		return err == nil && len(list) == 2
	}, patience, time.Millisecond)
	late := e.Decide(t.Context(), answer(r, raw, "bob", deny))
	require.Equal(t, hitl.AlreadyDecided, late.Status, late.Error)
	got, err := e.Interaction(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, ref(r).String(), got.Key)
}

// A gateway that does not hold the decided one any more looks it up in the record.
func TestARefusedRequestHidesNoneInTheRecord_B01(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, stop := w.gateway()
	nc := w.connect()
	r := request("k1")
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
	theirs := subject.NewRef("default", "cli", r.ID)
	w.store(nc, subject.Request(theirs), []byte(`{"v":1}`))
	require.Eventually(t, func() bool {
		ix, err := e.Interaction(t.Context(), theirs.String())
		return err == nil && ix.State == wire.StateClosed
	}, patience, time.Millisecond)
	stop()
	e, _ = w.gateway(func(o *Options) { o.recent = 1 }) // its list holds theirs only
	late := e.Decide(t.Context(), answer(r, raw, "bob", deny))
	require.Equal(t, hitl.AlreadyDecided, late.Status, late.Error)
	require.Equal(t, "ada", late.Decision.Principal.ID)
	got, err := e.Interaction(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, ref(r).String(), got.Key)
}

// What comes after the deadline does not change that nobody decided in time:
// here no gateway ran when the time was up.
func TestAfterItsDeadlineARequestIsExpiredWhateverElseCame_B32_B34(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nc := w.connect()
	withdrawn := request("k1", expiring(50*time.Millisecond))
	inTime := request("k2", expiring(time.Minute))
	orphan := request("k3", expiring(50*time.Millisecond))
	for _, r := range []*hitl.Request{withdrawn, inTime, orphan} {
		w.ask(nc, r)
	}
	last := w.stamp(ref(orphan))
	require.Eventually(t, func() bool { return time.Now().After(last.Add(60 * time.Millisecond)) }, patience, time.Millisecond)
	for _, r := range []*hitl.Request{withdrawn, inTime} {
		w.store(nc, subject.Withdraw(ref(r)), []byte(`{"v":1,"shutdown":true}`))
	}
	w.store(nc, subject.State(subject.NewSession("default", "agents", "s1")), sessionState(map[string]any{"state": "dead"}))
	e, _ := w.gateway()
	require.Equal(t, hitl.Cancelled, outcome(t, e, inTime).Outcome)
	for _, r := range []*hitl.Request{withdrawn, orphan} {
		got := outcome(t, e, r)
		require.Equal(t, hitl.Expired, got.Outcome)
		require.Equal(t, "system", got.Decision.Principal.Kind)
	}
}

// stamp is when the server stored a request.
func (w *world) stamp(ref subject.Ref) time.Time {
	w.t.Helper()
	m, err := w.journal(w.connect()).Request(w.t.Context(), ref)
	require.NoError(w.t, err)
	return m.Time
}

// full is a record without room.
type full struct {
	journal.Journal
	on atomic.Bool
}

func (f *full) Decide(ctx context.Context, ref subject.Ref, d *hitl.Decision) (*journal.StoredDecision, bool, error) {
	if f.on.Load() {
		return nil, false, journal.ErrUnknown
	}
	return f.Journal.Decide(ctx, ref, d)
}

func TestAGatewayThatCannotStoreDecisionsIsNotReady_invariant4(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := &full{}
	e, _ := w.gateway(func(o *Options) {
		f.Journal = o.Journal
		o.Journal = f
	})
	require.NoError(t, e.Healthy())
	r := request("k1")
	raw := w.ask(w.connect(), r)
	pending(t, e, r.ID)
	f.on.Store(true)
	require.Equal(t, hitl.Unavailable, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
	require.Error(t, e.Healthy())
	pending(t, e, r.ID)
	f.on.Store(false)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
	require.NoError(t, e.Healthy())
}

func TestTitlesAndNamesStayOnOneLine_B54(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	r := request("k1", func(r *hitl.Request) {
		r.Title = "Run\tthis" + strings.Repeat("\n", 400) + "now"
		r.AgentName = "Claude\n\nApproved"
		r.Tool.Name = "Ba\nsh"
	})
	w.ask(w.connect(), r)
	pending(t, e, r.ID)
	got, err := e.Interaction(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, "Run this now", got.Title)
	for _, text := range []string{got.Title, got.AgentName, got.ToolName, got.Headline} {
		require.NotContains(t, text, "\n")
	}
}
