package road

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/hitl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckFindsLostAndDoubled(t *testing.T) {
	t.Parallel()
	ask := Timing{Key: "k", Decision: "d"}
	for _, r := range []struct {
		name     string
		asks     []Timing
		receipts []string
		ends     []string
		text     string
	}{
		{"one decision everywhere", []Timing{ask}, []string{"d"}, []string{"d"}, ""},
		{"lost at the asker", []Timing{{Err: "no decision"}}, nil, nil, "no decision"},
		{"lost receipt", []Timing{ask}, nil, []string{"d"}, "receipts"},
		{"two receipts", []Timing{ask}, []string{"d", "e"}, []string{"d"}, "receipts"},
		{"another decision", []Timing{ask}, []string{"d"}, []string{"e"}, "ends"},
		{"two ends", []Timing{ask}, []string{"d"}, []string{"d", "d"}, "ends"},
		{"one key twice", []Timing{ask, ask}, []string{"d"}, []string{"d"}, "asked twice"},
	} {
		t.Run(r.name, func(t *testing.T) {
			rs := &Readers{accepted: map[string][]string{"k": r.receipts}, closed: map[string][]string{"k": r.ends}}
			err := rs.Check(r.asks)
			if r.text == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, r.text)
			}
		})
	}
}

func TestCheckWhereNobodySaw(t *testing.T) {
	t.Parallel()
	a, b := Timing{Key: "k", Decision: "d"}, Timing{Key: "l", Decision: "e"}
	require.NoError(t, Check([]Timing{a, b}))
	require.ErrorContains(t, Check([]Timing{a, a}), "was there before")
	require.ErrorContains(t, Check([]Timing{a, {Key: "l", Decision: "d"}}), "was there before")
	require.ErrorContains(t, Check([]Timing{a, {Err: "no decision"}}), "no decision")
}

func TestRequestIsOfTheSizeItIsSaidToHave(t *testing.T) {
	t.Parallel()
	r := *Request("bench-shard0-0", "job0-0")
	r.V, r.Tenant, r.Owner, r.ID = 1, "default", "agents", hitl.ID("default", "agents", r.Key, 1)
	raw, err := hitl.Marshal(&r)
	require.NoError(t, err)
	require.InDelta(t, Bytes, len(raw), Bytes/10)
}
