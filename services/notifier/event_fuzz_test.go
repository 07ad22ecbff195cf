package notifier

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/source"
)

// FuzzEvent: an event says one thing about the interaction of its subject, in
// this tenant, or it can never be handled.
func FuzzEvent(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `[]`, `{"v":1,"kind":"approval","title":"x","created_at":"2026-11-27T10:00:00Z","expires_at":"2026-11-27T11:00:00Z"}`,
		`{"v":1,"outcome":"denied","decision":{"v":1,"decision_id":"d","decided_at":"2026-11-27T10:00:00Z"}}`, `{"decision":1}`, `{"created_at":"soon"}`,
		`{"v":1,"kind":"approval","title":"x","decided":true}`,
	} {
		for _, subj := range []string{"hitl.ixe.t.o.s.i.open", "hitl.ixe.t.o.s.i.closed", "hitl.ixe.t2.o.s.i.open", "hitl.ixe.t.o.s.i.other", "hitl.dec.t.o.i", "hitl.ixe.t.o.s.*.open", ""} {
			f.Add(subj, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, subj string, data []byte) {
		ref, opened, closed, err := read("t", source.Event{Subject: subj, Data: data})
		if err != nil {
			var bad *badEvent
			require.ErrorAs(t, err, &bad)
			require.Nil(t, opened)
			require.Nil(t, closed)
			return
		}
		require.Equal(t, "t", ref.Tenant)
		require.True(t, json.Valid(data))
		require.True(t, strings.HasPrefix(subj, "hitl.ixe.t."+ref.Owner+"."))
		if strings.HasSuffix(subj, "."+ref.ID+"."+subject.Closed) {
			require.NotNil(t, closed)
			require.Nil(t, opened)
		} else {
			require.True(t, strings.HasSuffix(subj, "."+ref.ID+"."+subject.Open))
			var said wire.Opened
			require.NoError(t, json.Unmarshal(data, &said))
			require.Equal(t, !said.Decided, opened != nil, "nobody need hear of what never waited")
			require.Nil(t, closed)
		}
	})
}
