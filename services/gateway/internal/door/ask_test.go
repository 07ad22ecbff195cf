package door_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

func TestAskHasAStatusForEveryEnd(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const body = `{"key":"k","kind":"approval","title":"t"}`
	pending := &wire.AskReply{Status: wire.AskPending, ID: "i"}
	for _, r := range []struct {
		name, query, body string
		wait              time.Duration
		refused           *wire.Error
		status            int
		code, field       string
	}{
		{name: "as long as it may", body: body, wait: 25 * time.Second, status: 200},
		{name: "shorter", query: "?wait=1500ms", body: body, wait: 1500 * time.Millisecond, status: 200},
		{name: "not at all", query: "?wait=0s", body: body, status: 200},
		{name: "too long", query: "?wait=26s", body: body, status: 400, code: "invalid", field: "wait"},
		{name: "less than nothing", query: "?wait=-1s", body: body, status: 400, code: "invalid", field: "wait"},
		{name: "no duration", query: "?wait=10", body: body, status: 400, code: "invalid", field: "wait"},
		{name: "too large", body: `{"key":"` + strings.Repeat("x", 2<<20) + `"}`, status: 413, code: "too_large"},
		{name: "refused", body: `{}`, wait: 25 * time.Second, refused: &wire.Error{Code: "invalid", Error: "no key", Fields: []hitl.Field{{Field: "key", Problem: "is missing"}}}, status: 400, code: "invalid", field: "key"},
		{name: "larger than the server takes", body: body, wait: 25 * time.Second, refused: &wire.Error{Code: "too_large", Error: "x"}, status: 413, code: "too_large"},
		{name: "key conflict", body: body, wait: 25 * time.Second, refused: &wire.Error{Code: "conflict", Error: "x"}, status: 409, code: "conflict"},
		{name: "too many", body: body, wait: 25 * time.Second, refused: &wire.Error{Code: "too_many", Error: "x"}, status: 429, code: "too_many"},
		{name: "not now", body: body, wait: 25 * time.Second, refused: &wire.Error{Code: "unavailable", Error: "x"}, status: 503, code: "unavailable"},
	} {
		t.Run(r.name, func(t *testing.T) {
			h.t = t
			h.fake.set(func(f *fake) {
				f.asked = func(tenant string, by hitl.Principal, raw []byte, wait time.Duration) (*wire.AskReply, *wire.Error) {
					require.Equal(t, "default", tenant)
					require.Equal(t, "owner", by.ID)
					require.Equal(t, r.body, string(raw))
					require.Equal(t, r.wait, wait)
					if r.refused != nil {
						return nil, r.refused
					}
					return pending, nil
				}
			})
			status, raw := h.post("/api/interactions"+r.query, r.body)
			require.Equal(t, r.status, status, string(raw))
			if r.status == 200 {
				var out wire.AskReply
				require.NoError(t, json.Unmarshal(raw, &out))
				require.Equal(t, *pending, out)
				return
			}
			e := httpError(t, raw)
			require.Equal(t, r.code, e.Code)
			if r.field != "" {
				require.Equal(t, []string{r.field}, fieldNames(e.Fields))
			}
		})
	}
}
