package door_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door"
)

// told returns the types of the frames that a tab got until the sign-in of that name.
func (tb *tab) told(name string) (types []string) {
	tb.h.t.Helper()
	for {
		raw, err := tb.frame()
		require.NoError(tb.h.t, err)
		var f struct{ Type, Name string }
		require.NoError(tb.h.t, json.Unmarshal(raw, &f))
		if f.Type == wire.TypeSignedIn && f.Name == name {
			return types
		}
		types = append(types, f.Type)
	}
}

// In a team a terminal is let in, or refused, by who brings the code that it shows:
// nobody is offered it, and nobody finds it otherwise.
func TestATerminalIsOfferedToNobodyWithoutItsCode_B56(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	bob := h.as(h.user("bob", grant(wire.RoleViewer, wire.AllProjects)))
	ada := h.as(h.user("ada", grant(wire.RoleAdmin, wire.AllProjects)))
	everybody := map[string]*house{"bob": bob, "ada": ada, "owner": h}
	tabs := map[string]*tab{}
	for name, who := range everybody {
		tabs[name], _, _ = who.tab("")
	}
	req, poll, err := h.auth.RequestCLI(t.Context(), "ada@laptop", false)
	require.NoError(t, err)
	// Notices come in the order in which things happened.
	for name := range everybody {
		_, _, err := h.auth.GrantTo(t.Context(), hitl.Principal{Kind: "person", ID: name, Name: "again " + name})
		require.NoError(t, err)
	}
	for name, tb := range tabs {
		said := "again " + name
		if name != "owner" {
			said = name // as the store has it
		}
		require.NotContains(t, tb.told(said), wire.TypeCLILogin, name)
	}
	for name, who := range everybody {
		status, raw := who.get("/api/cli-logins")
		require.Equal(t, http.StatusOK, status)
		require.JSONEq(t, `{"requests":[]}`, string(raw), name)
		for _, guess := range []string{"AAAAAAAA", "a", req.Code[:7], req.Code[:7] + "*", req.Code + "A"} {
			status, _ = who.get("/api/cli-logins/" + guess)
			require.Equal(t, http.StatusNotFound, status, "%s %s", name, guess)
			for _, answer := range []string{`{"allow":true}`, `{"allow":false}`} {
				status, _ = who.post("/api/cli-logins/"+guess, answer)
				require.Equal(t, http.StatusNotFound, status, "%s %s %s", name, guess, answer)
			}
		}
	}
	_, _, sess, err := h.auth.PollCLI(t.Context(), poll)
	require.NoError(t, err, "it still waits")
	require.Nil(t, sess)

	// Whoever brings the code is told what it is about before they say anything.
	status, raw := ada.get("/api/cli-logins/" + req.Code)
	require.Equal(t, http.StatusOK, status, string(raw))
	var found wire.CLIRequest
	require.NoError(t, json.Unmarshal(raw, &found))
	require.Equal(t, "ada@laptop", found.Name)
	require.Equal(t, req.Code, found.Code)
	status, _ = ada.post("/api/cli-logins/"+req.Code, `{"allow":true}`)
	require.Equal(t, http.StatusOK, status)
	_, token, sess, err := h.auth.PollCLI(t.Context(), poll)
	require.NoError(t, err)
	require.Equal(t, "ada", sess.Person.ID)
	status, _ = ada.get("/api/cli-logins/" + req.Code)
	require.Equal(t, http.StatusNotFound, status)

	// A terminal's own session, and a program, find none.
	req, _, err = h.auth.RequestCLI(t.Context(), "another", false)
	require.NoError(t, err)
	made, err := h.auth.NewToken(t.Context(), wire.NewAPIToken{Name: "bot", Roles: []wire.Grant{grant(wire.RoleAdmin, wire.AllProjects)}, ExpiresIn: 60}, h.auth.Owner())
	require.NoError(t, err)
	for _, other := range []string{token, made.Token} {
		status, _ = h.as(other).get("/api/cli-logins/" + req.Code)
		require.Equal(t, http.StatusForbidden, status)
		status, _ = h.as(other).post("/api/cli-logins/"+req.Code, `{"allow":false}`)
		require.Equal(t, http.StatusForbidden, status)
	}
}

// Where nobody else can be meant it stays one press, also for somebody who has a user
// record of their own for the passkey; an address of others is not alone.
func TestATerminalIsOfferedToWhoIsAlone(t *testing.T) {
	t.Parallel()
	for base, offered := range map[string]bool{
		"":                         true,
		"http://127.0.0.1:8080":    true,
		"http://[::1]:8080":        true,
		"http://localhost:8080":    true,
		"https://banksman.example": false,
		"http://10.0.0.7:8080":     false,
	} {
		h := newHouse(t, func(o *door.Options) {
			if base != "" {
				o.BaseURL = mustURL(t, base)
			}
		})
		tb, _, _ := h.tab("")
		req, _, err := h.auth.RequestCLI(t.Context(), "laptop", false)
		require.NoError(t, err)
		_, _, err = h.auth.GrantTo(t.Context(), hitl.Principal{Kind: "person", ID: auth.OwnerID, Name: "again"})
		require.NoError(t, err)
		types := tb.told("again")
		_, raw := h.get("/api/cli-logins")
		if offered {
			require.Contains(t, types, wire.TypeCLILogin, base)
			require.Contains(t, string(raw), req.Code, base)
		} else {
			require.NotContains(t, types, wire.TypeCLILogin, base)
			require.NotContains(t, string(raw), req.Code, base)
		}
	}
}
