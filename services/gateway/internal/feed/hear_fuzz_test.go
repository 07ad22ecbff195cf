package feed

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// FuzzHear: only a call that the list would take, and that came across accounts, makes
// a follower, of the subject that the server let it use.
func FuzzHear(f *testing.F) {
	for _, s := range []string{
		``, `null`, `[]`, `{}`, `{"follow":true}`, `{"follow":false}`, `{"follow":"true"}`, `{"follow":1}`, `{"follow":true,"follow":false}`, `{"follow":false,"Follow":true}`, `{"follow":true`, "{\"follow\":true,\"state\":\"\xff\"}",
		`{"follow":true,"limit":1e999}`, `{"follow":true,"limit":` + strings.Repeat("9", 400) + `}`, `{"follow":true,"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, `{"follow":true,"x":"` + strings.Repeat("x", maxCall) + `"}`,
	} {
		f.Add("hitl.svc.default.ci.list", "_R_.x", []byte(s))
		f.Add("hitl.svc.default.ci.list", "hitl.dec.default.a.i", []byte(s))
	}
	for _, s := range []string{"", "hitl.svc.default.ci", "hitl.svc.default.ci.list.more", "....", "hitl.svc..ci.list"} {
		f.Add(s, "_R_.x", []byte(`{"follow":true}`))
	}
	f.Fuzz(func(t *testing.T, subj, reply string, body []byte) {
		who, ok := follows(&nats.Msg{Subject: subj, Reply: reply, Data: body})
		if !ok {
			require.Zero(t, who)
			return
		}
		require.True(t, strings.HasPrefix(reply, "_R_."), "nobody may be told who cannot call")
		parts := strings.Split(subj, ".")
		require.Equal(t, []string{parts[2], parts[3]}, []string{who.tenant, who.name})
		var in wire.ListCall
		require.NoError(t, hitl.Decode(body, "call", &in), "what list refuses follows nothing")
		require.True(t, in.Follow)
		require.LessOrEqual(t, len(body), maxCall)
	})
}

// FuzzFollower: whatever lies in the bucket, nobody is told for longer than a lease
// from now.
func FuzzFollower(f *testing.F) {
	now := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{now, now.Add(Lease), now.Add(-time.Hour), now.AddDate(1000, 0, 0), {}} {
		raw, err := json.Marshal(stored{1, at})
		require.NoError(f, err)
		f.Add(raw)
		f.Add(raw[:len(raw)-1])
	}
	for _, s := range []string{``, `null`, `{}`, `{"v":2,"until":"2026-11-28T10:01:00Z"}`, `{"v":1,"until":"soon"}`, `{"v":1,"until":1}`, `{"v":1,"until":"2026-11-28T10:01:00Z","Until":"2026-11-28T10:02:00Z"}`, "{\"v\":1,\"until\":\"\xff\"}", `{"v":1e999}`} {
		f.Add([]byte(s))
	}
	d := New(nil, slog.New(slog.DiscardHandler))
	d.now = func() time.Time { return now }
	f.Fuzz(func(t *testing.T, raw []byte) {
		until, ok := d.until(raw)
		if !ok {
			require.Zero(t, until)
			return
		}
		require.NoError(t, hitl.CheckJSON(raw))
		require.False(t, until.After(now.Add(Lease)))
		again, err := json.Marshal(stored{1, until})
		if err != nil {
			return // a year beyond 9999
		}
		same, ok := d.until(again)
		require.True(t, ok)
		require.True(t, until.Equal(same))
	})
}

// FuzzEvent: what followers are told of an event is what it says, without the body that
// only some may read.
func FuzzEvent(f *testing.F) {
	for _, s := range []string{
		``, `null`, `[]`, `{}`, `{"v":1,"request_id":"i","kind":"approval","title":"x","digest":"d"}`, `{"v":1,"title":"x","decided":true}`, `{"v":1,"outcome":"denied","decision":{"v":1,"decision_id":"d"},"title":"x"}`,
		`{"v":1,"body":{"input":"secret"},"title":"x"}`, `{"v":1,"title":1}`, "{\"title\":\"\xff\"}", `{"v":1e999}`, `{"title":"a","title":"b"}`, `{"body":{"blocks":[{"text":"secret"}]},"request_b64":"c2VjcmV0"}`,
	} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, over bool) {
		p := subject.Parsed{Kind: "ixe", Tenant: "t", Owner: "o", ID: "i", Tail: subject.Open}
		if over {
			p.Tail = subject.Closed
		}
		ix, ok := read(p, data)
		if !ok {
			require.Nil(t, ix)
			return
		}
		require.Equal(t, "i", ix.ID, "whose event it is says its subject")
		require.Nil(t, ix.Body)
		require.Equal(t, over, ix.State == wire.StateClosed)
		raw, err := hitl.Marshal(ix)
		if err != nil {
			return // a year beyond 9999
		}
		var told map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(raw, &told))
		require.NotContains(t, told, "body")
		require.NotContains(t, told, "request_b64")
	})
}
