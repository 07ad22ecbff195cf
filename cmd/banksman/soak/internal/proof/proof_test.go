package proof

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func TestModelKnowsWhatMustNotBe(t *testing.T) {
	t.Parallel()
	yes := Verdict{ID: "1", Outcome: "allowed", Principal: "person:ada", Content: "yes"}
	no := Verdict{ID: "2", Outcome: "denied", Principal: "person:bob", Content: "no"}
	late := Verdict{ID: "3", Outcome: "expired", Principal: "system:gateway", Content: "expired"}
	op := func(kind string, call, end int64, saw string, v Verdict) Operation {
		return Operation{Kind: kind, Call: call, Return: end, Saw: saw, Verdict: v}
	}
	attempt := func(by Verdict, call, end int64, saw string, told Verdict) Operation {
		o := op(OpDecide, call, end, saw, told)
		o.Principal, o.Content = by.Principal, by.Content
		return o
	}
	asked := op(OpAsk, 0, 10, SawStored, Verdict{})
	last := func(v Verdict) Operation { return op(OpRecord, 1000, 1001, SawClosed, v) }
	const accepted, duplicate, already, expired = string(hitl.Accepted), string(hitl.Duplicate), string(hitl.AlreadyDecided), string(hitl.TooLate)
	for _, c := range []struct {
		name string
		ok   bool
		ops  []Operation
	}{
		{"asked and decided", true, []Operation{asked, attempt(yes, 20, 30, accepted, yes), op(OpAwait, 10, 40, SawClosed, yes), last(yes)}},
		{"the loser is told the winner", true, []Operation{asked, attempt(yes, 20, 60, accepted, yes), attempt(no, 20, 30, already, yes), last(yes)}},
		{"decided before the acknowledgement is back", true, []Operation{op(OpAsk, 0, 50, SawStored, Verdict{}), attempt(yes, 20, 30, accepted, yes), last(yes)}},
		{"a read beside a decision sees either", true, []Operation{
			asked, attempt(yes, 20, 60, accepted, yes), op(OpGet, 20, 40, SawClosed, yes), op(OpGet, 20, 30, SawPending, Verdict{}), last(yes),
		}},
		{"a lost receipt, then the same again", true, []Operation{asked, attempt(yes, 20, never, SawSilence, yes), attempt(yes, 40, 50, duplicate, yes), last(yes)}},
		{"a lost acknowledgement of an ask", true, []Operation{op(OpAsk, 0, never, SawSilence, Verdict{}), attempt(yes, 20, 30, accepted, yes), last(yes)}},
		{"expired at its deadline", true, []Operation{asked, op(OpSettle, 100, never, SawClosed, late), attempt(no, 120, 130, expired, late), last(late)}},
		{"another digest", true, []Operation{asked, attempt(no, 20, 30, string(hitl.DigestMismatch), Verdict{}), attempt(yes, 40, 50, accepted, yes), last(yes)}},
		{"still open", true, []Operation{asked, op(OpGet, 20, 30, SawPending, Verdict{}), op(OpRecord, 1000, 1001, SawPending, Verdict{})}},
		{"of many lost receipts one was the decision's", true, []Operation{
			asked, attempt(yes, 40, never, SawSilence, yes), attempt(yes, 20, never, SawSilence, yes), attempt(no, 15, never, SawSilence, Verdict{}),
			op(OpGet, 22, 23, SawClosed, yes), last(yes),
		}},
		{"the asker gave up", true, []Operation{asked, attempt(yes, 20, 30, accepted, yes), op(OpAwait, 10, 40, SawNoDecision, Verdict{}), last(yes)}},
		{"never stored", true, []Operation{op(OpAsk, 0, never, SawSilence, Verdict{}), attempt(yes, 20, 30, string(hitl.NotFound), Verdict{}), op(OpRecord, 1000, 1001, SawNothing, Verdict{})}},

		{"two accepted", false, []Operation{asked, attempt(yes, 20, 30, accepted, yes), attempt(no, 20, 30, accepted, no), last(no)}},
		{"accepted and not in the record", false, []Operation{asked, attempt(yes, 20, 30, accepted, yes), op(OpRecord, 1000, 1001, SawPending, Verdict{})}},
		{"another decision in the record", false, []Operation{asked, attempt(yes, 20, 30, accepted, yes), last(no)}},
		{"accepted with another's words", false, []Operation{asked, attempt(yes, 20, 30, accepted, no), last(no)}},
		{"accepted before it was asked", false, []Operation{op(OpAsk, 50, 60, SawStored, Verdict{}), attempt(yes, 20, 30, accepted, yes), last(yes)}},
		{"the loser is told another winner", false, []Operation{asked, attempt(yes, 20, 30, accepted, yes), attempt(no, 20, 30, already, late), last(yes)}},
		{"told already decided before anybody decided", false, []Operation{asked, attempt(no, 20, 30, already, yes), attempt(yes, 40, 50, accepted, yes), last(yes)}},
		{"a repetition of nothing", false, []Operation{asked, attempt(yes, 20, 30, duplicate, yes), attempt(yes, 40, 50, accepted, yes), last(yes)}},
		{"another's decision called a repetition", false, []Operation{asked, attempt(yes, 20, 30, accepted, yes), attempt(no, 40, 50, duplicate, yes), last(yes)}},
		{"one's own decision called another's", false, []Operation{asked, attempt(yes, 20, 30, accepted, yes), attempt(yes, 40, 50, already, yes), last(yes)}},
		{"pending after it was decided", false, []Operation{asked, attempt(yes, 20, 30, accepted, yes), op(OpGet, 40, 50, SawPending, Verdict{}), last(yes)}},
		{"closed, then pending", false, []Operation{asked, attempt(yes, 20, 90, accepted, yes), op(OpGet, 20, 30, SawClosed, yes), op(OpGet, 40, 50, SawPending, Verdict{}), last(yes)}},
		{"unknown after it was acknowledged", false, []Operation{asked, op(OpGet, 40, 50, SawNothing, Verdict{}), attempt(yes, 60, 70, accepted, yes), last(yes)}},
		{"an acknowledged ask is lost", false, []Operation{asked, op(OpRecord, 1000, 1001, SawNothing, Verdict{})}},
		{"expired before its deadline", false, []Operation{asked, op(OpSettle, 100, never, SawClosed, late), attempt(no, 20, 30, expired, late), last(late)}},
		{"decided before anybody tried", false, []Operation{asked, op(OpGet, 12, 13, SawClosed, yes), attempt(yes, 20, never, SawSilence, yes), last(yes)}},
		{"a decision that nobody made", false, []Operation{asked, last(yes)}},
		{"the asker is told another decision", false, []Operation{asked, attempt(yes, 20, 30, accepted, yes), op(OpAwait, 10, 40, SawClosed, no), last(yes)}},
		{"the asker is told before anybody decided", false, []Operation{asked, op(OpAwait, 10, 15, SawClosed, yes), attempt(yes, 20, 30, accepted, yes), last(yes)}},
		{"a word that no receipt has", false, []Operation{asked, attempt(yes, 20, 30, "perhaps", yes), last(yes)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := linearizable([]*Interaction{{Ref: c.name, Ops: c.ops}}, judgeLimit)
			if c.ok {
				require.Empty(t, bad)
				return
			}
			require.Len(t, bad, 1)
			require.Equal(t, porcupine.Illegal, bad[0].result)
			dir := t.TempDir()
			file, err := bad[0].Save(dir)
			require.NoError(t, err)
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Contains(t, string(raw), c.name)
			require.FileExists(t, filepath.Join(dir, "broken.html"))
		})
	}
}

// A search that is given up proves nothing, so it counts as broken.
func TestASearchThatTakesTooLongIsNoProof(t *testing.T) {
	t.Parallel()
	ix := &Interaction{Ref: "hard", Ops: []Operation{{Kind: OpAsk, Return: 10, Saw: SawStored}}}
	for range 40 { // each may have been before any other
		ix.Ops = append(ix.Ops, Operation{Kind: OpAsk, Call: 20, Return: never, Saw: SawSilence})
	}
	ix.Ops = append(ix.Ops, Operation{Kind: OpRecord, Call: 30, Return: 31, Saw: SawNothing})
	bad := linearizable([]*Interaction{ix}, 50*time.Millisecond)
	require.Len(t, bad, 1)
	require.Equal(t, porcupine.Unknown, bad[0].result)
}

// What the record says completes a history.
func TestResolve(t *testing.T) {
	t.Parallel()
	end := time.Unix(100, 0).UnixNano()
	d := &hitl.Decision{
		DecisionID: "1", Content: hitl.Content{Outcome: hitl.Allowed},
		Principal: hitl.Principal{Kind: "person", ID: "ada"},
	}
	mine := VerdictOf(d)
	ix := &Interaction{Ops: []Operation{
		{Kind: OpDecide, Principal: mine.Principal, Content: mine.Content, Saw: SawSilence, Return: 5},
		{Kind: OpDecide, Principal: "person:bob", Content: mine.Content, Saw: SawSilence, Return: 5},
		{Kind: OpAsk, Saw: SawSilence},
	}}
	resolve(ix, Stored{Decision: d}, undisturbed, end)
	require.Len(t, ix.Ops, 4)
	require.Equal(t, mine, ix.Ops[0].Verdict)
	require.Zero(t, ix.Ops[1].Verdict, "another one's attempt changed nothing")
	for _, o := range ix.Ops[:3] {
		require.Equal(t, never, o.Return)
	}
	require.Equal(t, SawClosed, ix.Ops[3].Saw)

	asked := time.Unix(50, 0)
	for name, c := range map[string]struct {
		ix   Interaction
		d    hitl.Decision
		call int64
	}{
		"expired not before its deadline": {
			Interaction{expiry: time.Second},
			hitl.Decision{Content: hitl.Content{Outcome: hitl.Expired}, RequestedAt: asked},
			asked.Add(time.Second).UnixNano(),
		},
		"cancelled not before somebody stopped": {
			Interaction{stopped: 7}, hitl.Decision{Content: hitl.Content{Outcome: hitl.Cancelled}}, 7,
		},
		"cancelled by nobody":    {Interaction{}, hitl.Decision{Content: hitl.Content{Outcome: hitl.Cancelled}}, end},
		"orphaned without cause": {Interaction{}, hitl.Decision{Content: hitl.Content{Outcome: hitl.Orphaned}}, end},
	} {
		t.Run(name, func(t *testing.T) {
			resolve(&c.ix, Stored{Decision: &c.d}, undisturbed, end)
			require.Equal(t, OpSettle, c.ix.Ops[0].Kind)
			require.Equal(t, c.call, c.ix.Ops[0].Call)
		})
	}
}

func TestContradictions(t *testing.T) {
	t.Parallel()
	asked := time.Unix(50, 0)
	allowed := &hitl.Decision{DecisionID: "1", Content: hitl.Content{Outcome: hitl.Allowed}, RequestedAt: asked, DecidedAt: asked.Add(time.Second)}
	other := *allowed
	other.DecisionID = "2"
	told := Interaction{expiry: time.Minute, Ops: []Operation{{Kind: OpDecide, Verdict: VerdictOf(allowed)}}}
	require.Empty(t, contradictions(&told, Stored{Decision: allowed}, undisturbed))
	require.ErrorContains(t, contradictions(&told, Stored{Decision: &other}, undisturbed)[0], "was told decision 1")
	require.ErrorContains(t, contradictions(&told, Stored{Request: true}, undisturbed)[0], "was told decision 1")
	require.ErrorContains(t, contradictions(&Interaction{acked: true}, Stored{}, undisturbed)[0], "acknowledged and is lost")
	require.Empty(t, contradictions(&Interaction{acked: true}, Stored{Request: true}, undisturbed))
	require.ErrorContains(t, contradictions(&Interaction{expiry: time.Second}, Stored{Decision: allowed}, undisturbed)[0], "after its deadline")
	early := *allowed
	early.Outcome = hitl.Expired
	require.ErrorContains(t, contradictions(&told, Stored{Decision: &early}, undisturbed)[1], "before its deadline")
}

// Who asked is told, unless parts were down for too long: a decision that is there
// reaches the asker, and a request can be stored.
func TestSomebodyIsToldNothing(t *testing.T) {
	t.Parallel()
	at := time.Unix(50, 0)
	allowed := &hitl.Decision{DecisionID: "1", Content: hitl.Content{Outcome: hitl.Allowed}, DecidedAt: at}
	gaveUp := func(after time.Duration) *Interaction {
		return &Interaction{Ops: []Operation{
			{Kind: OpAwait, Client: "asker0", Saw: SawNoDecision, Call: at.UnixNano(), Return: at.Add(after).UnixNano()},
		}}
	}
	halfUp := undisturbed
	halfUp.Up = func(from, to int64) time.Duration { return whole(from, to) / 2 }
	none := Stored{}
	require.ErrorContains(t, contradictions(gaveUp(40*time.Second), Stored{Decision: allowed}, undisturbed)[0], "asker0 gave up and was not told of decision 1")
	require.Empty(t, contradictions(gaveUp(40*time.Second), Stored{Decision: allowed}, halfUp))
	require.Empty(t, contradictions(gaveUp(20*time.Second), Stored{Decision: allowed}, undisturbed))
	require.ErrorContains(t, contradictions(gaveUp(40*time.Second), none, undisturbed)[0], "asker0 could not ask")
	require.Empty(t, contradictions(gaveUp(40*time.Second), none, halfUp))
	require.Empty(t, contradictions(gaveUp(40*time.Second), Stored{Request: true}, undisturbed), "nobody decided")
}

// whole is the uptime of what nothing disturbed.
func whole(from, to int64) time.Duration { return time.Duration(to - from) }

var undisturbed = Site{Up: whole, Calm: whole, OrphanAfter: 8 * time.Second}
