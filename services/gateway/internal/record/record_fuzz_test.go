package record

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/policy"
)

// FuzzExamine: whatever an asker stored ends, by every outcome that can be, in a
// decision and events that fit and can be read again.
func FuzzExamine(f *testing.F) {
	add := func(r hitl.Request, attempt string) {
		r.V, r.Key, r.Tenant, r.Owner, r.SessionID, r.Title = 1, "k", "default", "agents", "s", "t"
		r.ID = hitl.ID(r.Tenant, r.Owner, r.Key, 1)
		raw, err := hitl.Marshal(r)
		require.NoError(f, err)
		f.Add(raw, attempt)
	}
	tool := func(input string) hitl.Request {
		return hitl.Request{Kind: hitl.KindApproval, Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(input)}}
	}
	zero := hitl.Duration(0)
	long := hitl.Duration(1<<63 - 1)
	add(tool(`{"command":"ls"}`), "")
	add(tool(`{"command":"`+strings.Repeat("<", 4000)+`"}`), "1")
	add(tool("{\"command\":\""+strings.Repeat("\u2028", 4000)+"\"}"), "2")
	add(tool("{\"command\":\""+strings.Repeat("\u007f", 4000)+"\"}"), "x")
	add(tool(`"`+strings.Repeat(`\"`, 2000)+`"`), "0")
	add(hitl.Request{Kind: hitl.KindQuestion, Questions: []hitl.Question{{Question: "?", Options: []hitl.Option{{Label: "A"}}}}, ExpiresIn: &zero}, "+1")
	add(hitl.Request{Kind: hitl.KindForm, Schema: json.RawMessage(`{"type":"object"}`), ExpiresIn: &long, AttentionIn: &long}, "1")
	add(hitl.Request{Kind: "poll"}, "1")
	f.Add([]byte(`{"v":1,"options":[`+strings.Repeat("{},", 60)+`{}]}`), "")
	f.Add([]byte("{\"v\":1,\"v\":2,\"\xff\":1}"), "")
	f.Add([]byte(``), "")
	p := &policy.Policy{Critical: []string{"/data"}}
	ref := subject.NewRef("default", "agents", hitl.ID("default", "agents", "k", 1))
	at := time.Date(2026, 11, 27, 10, 0, 0, 123, time.UTC)
	f.Fuzz(func(t *testing.T, body []byte, attempt string) {
		m := journal.Message{Subject: subject.Request(ref), Seq: 7, Time: at, Data: body, Header: map[string][]string{}}
		if attempt != "" {
			m.Header[hitl.HeaderAttempt] = []string{attempt}
		}
		r, a, err := Examine(p, ref, m)
		target := &Target{Admission: a, Raw: body, Digest: hitl.Digest(body), Request: r}
		var ends []hitl.Content
		var inv *hitl.InvalidError
		if err != nil {
			require.ErrorAs(t, err, &inv)
			require.NotEmpty(t, inv.Fields)
			target = Refused(ref, m)
			ends = []hitl.Content{{Outcome: hitl.InvalidIX, Fields: inv.Fields}}
		} else {
			require.Equal(t, ref, subject.NewRef(r.Tenant, r.Owner, r.ID), "it is its owner's own")
			require.GreaterOrEqual(t, a.Attempt, 1)
			opened, err := Opened(card.Summarize(r, target.Digest, a), body, a, at, false)
			require.NoError(t, err)
			require.LessOrEqual(t, len(opened), journal.MaxEventMsg)
			ends = []hitl.Content{
				{Outcome: hitl.Expired}, {Outcome: hitl.Cancelled, Message: strings.Repeat("\u2028", 200), Comment: hitl.ShutdownComment}, {Outcome: hitl.Orphaned, Comment: "gone"},
			}
			for _, say := range []hitl.Response{
				{Decision: "allow"}, {Decision: "deny"}, {Action: "dismiss"}, {Action: "clarify", Message: "m"}, {Answers: json.RawMessage(`{"0":"A"}`)}, {Content: json.RawMessage(`{}`)},
			} {
				if c, err := hitl.Evaluate(r, &say); err == nil {
					ends = append(ends, *c)
				}
			}
		}
		for _, c := range ends {
			d := target.Decision(c, hitl.Principal{Kind: "system", ID: "gateway"}, "deadline", "", at)
			raw, err := hitl.Marshal(d)
			require.NoError(t, err)
			require.LessOrEqual(t, len(raw), journal.MaxDecisionMsg)
			read, err := hitl.ParseDecision(raw)
			require.NoError(t, err)
			require.Equal(t, c.Outcome, read.Outcome)
			kept, err := read.Request()
			require.NoError(t, err)
			if c.Outcome == hitl.InvalidIX {
				require.Nil(t, kept, "only the digest")
			} else {
				require.Equal(t, body, kept, "the exact bytes")
			}
			require.Equal(t, hitl.Digest(body), read.Digest)
			w := &journal.StoredDecision{Decision: read, Seq: 8, Time: at}
			again, adm, err := Decided(p, ref, w)
			require.NoError(t, err)
			require.Equal(t, kept == nil, again == nil)
			sum := Unreadable(adm, w)
			if again != nil {
				sum = card.Summarize(again, w.Digest, adm)
			}
			ended, err := Ended(sum, w, at)
			require.NoError(t, err)
			require.LessOrEqual(t, len(ended), journal.MaxEventMsg)
		}
		require.False(t, errors.Is(err, journal.ErrNotFound))
	})
}
