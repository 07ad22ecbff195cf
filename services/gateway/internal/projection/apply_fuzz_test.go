package projection

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/quota"
)

// FuzzApply: whatever the streams hold, in whatever order, an interaction is open
// or closed or unknown, and an end is final. Nobody stays charged for what is
// not open.
func FuzzApply(f *testing.F) {
	const (
		opened = `{"v":1,"request_id":"i","kind":"approval","tenant":"t","owner":"o","session_id":"s","title":"x","digest":"d","created_at":"2026-11-27T10:00:00Z","request_bytes":9}`
		ended  = `{"v":1,"request_id":"i","kind":"approval","tenant":"t","owner":"o","session_id":"s","outcome":"denied","decision":{"v":1,"decision_id":"d"}}`
		state  = `{"v":1,"session_id":"s","tenant":"t","owner":"o","worker":"w","generation":1,"runtime":"demo","state":"dead"}`
		ack    = `{"v":1,"stage":"applied","decision_id":"d"}`
	)
	for _, s := range []string{
		"", opened, opened + "\n" + ended, ended + "\n" + opened, opened + "\n" + ack + "\n" + ended, ended + "\n" + ack, opened + "\n" + state, state + "\n" + opened + "\n" + `{"generation":2,"reason":"gone"}`,
		"null\n[]\n{}", "{}\n{}\n{}\n{}", strings.Replace(opened, `"request_bytes":9`, `"request_bytes":-9,"expires_at":"2026-11-27T10:00:00Z"`, 1), strings.Replace(opened, `"v":1`, `"v":1,"request_b64":"e30="`, 1),
		strings.Replace(opened, `"v":1`, `"v":1,"request_b64":"eyJ2IjoxLCJpZCI6ImkiLCJraW5kIjoicXVlc3Rpb24iLCJ0ZW5hbnQiOiJ0Iiwib3duZXIiOiJvIiwic2Vzc2lvbl9pZCI6InMiLCJ0aXRsZSI6IngiLCJxdWVzdGlvbnMiOlt7InF1ZXN0aW9uIjoiPyJ9XX0="`, 1),
	} {
		for _, order := range []uint32{0, 0o10, 0o210, 0o1040, 0o4321} {
			f.Add([]byte(s), order)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, order uint32) {
		ref, key := subject.NewRef("t", "o", "i"), subject.NewSession("t", "o", "s")
		subjects := []string{
			subject.Event(ref, key.ID, subject.Open), subject.Event(ref, key.ID, subject.Closed), subject.State(key), "hitl.sgw." + key.String(),
			subject.Ack(ref, hitl.Applied), subject.Transcript(key), subject.Event(subject.NewRef("t", "o", "i2"), key.ID, subject.Open), "hitl.ixe",
		}
		now := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
		clock := func() time.Time { return now }
		ledger := quota.New(quota.Limits{Open: 1}, clock)
		p := New(Options{
			Logger: slog.New(slog.DiscardHandler), Clock: clock, OrphanAfter: time.Hour, Recent: 4,
			Orphan: func(subject.Ref, string) {}, Doubtful: func(subject.Session, bool) {}, Alarm: make(chan struct{}, 1), Ledger: ledger,
		})
		p.Begin(cursor.Position{})
		over := map[subject.Ref]bool{}
		for i, line := range bytes.Split(body, []byte("\n")) {
			if i == 8 {
				break
			}
			m := journal.Message{Subject: subjects[order>>(3*i)&7], Data: line, Seq: uint64(i + 1), Time: now}
			at, err := subject.Parse(m.Subject)
			if err == nil && at.Kind != "ixe" && at.Kind != "sgw" {
				p.ApplyTranscript(m)
				require.Equal(t, int64(m.Seq), p.pos.Transcripts)
			} else {
				p.ApplyEvent(m)
				require.Equal(t, int64(m.Seq), p.pos.Events, "what cannot be read does not stop the rest")
			}
			for r := range over {
				require.True(t, p.closed.Has(r))
			}
			for r, en := range p.open {
				require.False(t, p.closed.Has(r), "open and closed")
				require.Equal(t, r, en.Ref)
				require.GreaterOrEqual(t, en.size, 0)
				require.Contains(t, p.sessions[en.session].pending, en)
			}
			if p.closed.Has(ref) {
				over[ref] = true
			}
			require.Equal(t, len(p.open) > 0, ledger.Check(quota.Owner{Tenant: "t", Name: "o"}, 1) != nil, "charged for what is open")
			waiting := 0
			for _, s := range p.sessions {
				waiting += len(s.pending)
			}
			require.Equal(t, len(p.open), waiting)
		}
		p.Due(time.Hour)
		p.Sessions()
	})
}
