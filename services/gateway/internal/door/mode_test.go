package door_test

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// A mode in which an agent does not ask is as good as approving what it will do: it
// takes the person who is there, as a critical request does, at the start of a session
// and later, by every door.
func TestAModeThatApprovesInAdvanceNeedsPresence_B56(t *testing.T) {
	t.Parallel()
	var behind atomic.Int64 // how far the clock that a proof is noted by is behind
	h := newTeamHouse(t, func(o *auth.Options) {
		o.Clock = func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }
	})
	key := h.fake.open("talk")
	d := newDevice(h)
	behind.Store(int64(6 * time.Minute))
	ada := h.as(h.join(d, h.invited("ada", grant(wire.RoleApprover, wire.AllProjects), grant(wire.RoleResponder, wire.AllProjects))))
	project := h.as(h.join(newDevice(h), h.invited("grace", grant(wire.RoleApprover, "shop"))))
	h.fake.set(func(f *fake) { f.sessions[key].ProjectID = "shop" })

	type door struct {
		name string
		do   func(h *house, mode string) (status int, code, words string, fields []hitl.Field)
	}
	overHTTP := func(path string, body func(mode string) string) func(*house, string) (int, string, string, []hitl.Field) {
		return func(h *house, mode string) (int, string, string, []hitl.Field) {
			status, raw := h.post(path, body(mode))
			if status == http.StatusOK {
				return status, "", "", nil
			}
			e := httpError(h.t, raw)
			return status, e.Code, e.Error, e.Fields
		}
	}
	tabs := map[string]*tab{} // by token
	overSocket := func(frame func(mode string) string) func(*house, string) (int, string, string, []hitl.Field) {
		return func(h *house, mode string) (int, string, string, []hitl.Field) {
			tb := tabs[h.token]
			if tb == nil {
				tb, _, _ = h.tab("")
				tabs[h.token] = tb
			}
			tb.send(json.RawMessage(frame(mode)))
			rec := tb.receipt("r")
			if rec.Status == hitl.Accepted {
				return http.StatusOK, "", "", nil
			}
			return http.StatusForbidden, string(rec.Status), rec.Error, rec.Fields
		}
	}
	doors := []door{
		{"change over HTTP", overHTTP("/api/sessions/"+key+"/mode", func(m string) string { return `{"mode":"` + m + `"}` })},
		{"change by its plain id", overHTTP("/api/sessions/talk/mode", func(m string) string { return `{"mode":"` + m + `"}` })},
		{"start over HTTP", overHTTP("/api/sessions", func(m string) string { return `{"runtime":"demo","project_id":"shop","mode":"` + m + `"}` })},
		{"change by a socket", overSocket(func(m string) string {
			return `{"type":"set_mode","ref":"r","session_id":"` + key + `","mode":"` + m + `"}`
		})},
		{"start by a socket", overSocket(func(m string) string {
			return `{"type":"start_session","ref":"r","runtime":"demo","project_id":"shop","mode":"` + m + `"}`
		})},
	}
	wide := []string{"bypassPermissions", "acceptEdits", "auto", "somethingNew"}
	for _, at := range doors {
		for _, who := range []*house{ada, project} {
			for _, mode := range wide {
				status, code, words, fields := at.do(who, mode)
				require.Equal(t, http.StatusForbidden, status, "%s %s", at.name, mode)
				require.Equal(t, "forbidden", code)
				require.Equal(t, []string{"assurance"}, fieldNames(fields), at.name)
				require.Contains(t, fields[0].Problem, "step_up")
				require.Contains(t, words, "/signin.html#proof", "the page leads there")
			}
			for _, mode := range []string{"default", "plan", "dontAsk"} {
				status, _, words, _ := at.do(who, mode)
				require.Equal(t, http.StatusOK, status, "%s %s: asking more takes nothing: %s", at.name, mode, words)
			}
		}
	}
	count := func() (n int) {
		h.fake.set(func(f *fake) { n = len(f.commands) })
		return n
	}
	before := count()

	// The passkey, used a moment ago, opens them.
	behind.Store(0)
	_, c, options := ada.ceremony("/api/proof/begin", "")
	status, raw := ada.post("/api/proof/finish", end(c, d.use(options), ""))
	require.Equal(t, http.StatusOK, status, string(raw))
	for _, at := range doors {
		for _, mode := range wide {
			status, _, words, _ := at.do(ada, mode)
			require.Equal(t, http.StatusOK, status, "%s %s: %s", at.name, mode, words)
		}
	}
	require.Greater(t, count(), before)

	// A program is nobody who is there, and whoever asks as the session's owner
	// approves nothing of its own in advance.
	for name, as := range map[string]string{"ci": "", "worker": "agents"} {
		tok, err := h.auth.NewToken(t.Context(), wire.NewAPIToken{
			Name: name, Roles: []wire.Grant{grant(wire.RoleAdmin, wire.AllProjects)}, ExpiresIn: 3600, Owner: as,
		}, hitl.Principal{Kind: "person", ID: "owner"})
		require.NoError(t, err)
		for _, at := range doors {
			status, code, words, fields := at.do(h.as(tok.Token), "bypassPermissions")
			require.Equal(t, http.StatusForbidden, status, "%s %s", at.name, name)
			require.Equal(t, "forbidden", code)
			if name == "ci" {
				require.Contains(t, words, "only a person")
				require.Equal(t, []string{"assurance"}, fieldNames(fields))
			} else {
				require.Contains(t, words, "its own")
				require.Equal(t, []string{"mode"}, fieldNames(fields))
			}
		}
	}
}
