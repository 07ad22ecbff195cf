package door_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/descope/virtualwebauthn"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// leaver reads what is sent at once, and is gone.
type leaver struct{ *httptest.ResponseRecorder }

func (l leaver) Write(p []byte) (int, error) {
	_, _ = l.ResponseRecorder.Write(p) // a buffer takes all
	return 0, errors.New("gone")
}

// FuzzLastEventID: a place that no gateway gave to a reader begins at the beginning, and
// says so; whatever was sent, the stream has its own lines only.
func FuzzLastEventID(f *testing.F) {
	engine := newFake()
	handler, token := open(f, engine)
	waiting(engine)
	first := engine.Cursor()
	for _, s := range []string{"", first, first + "x", first[:len(first)-1], "0", "-1", strings.Repeat("9", 400), "\x00", "\xff", "*", "a\r\nid: b", "a\nevent: x\ndata: {}", " " + first, "null", `{"v":1}`, strings.Repeat("a", 9000)} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, id string, one bool) {
		a, _ := waiting(engine)
		engine.say(a.session, "hello\r\nid: forged\n\ndata: {}")
		path := "/api/events"
		if one {
			path = "/api/sessions/" + a.session + "/events"
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://door"+path, nil)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header["Last-Event-Id"] = []string{id}
		res := leaver{httptest.NewRecorder()}
		handler.ServeHTTP(res, req)
		require.Equal(t, http.StatusOK, res.Code, "%s", res.Body)
		require.Equal(t, "text/event-stream", res.Header().Get("Content-Type"))
		_, known := cursorSeq(id)
		event, whole := "", false
		for _, line := range strings.Split(res.Body.String(), "\n") {
			name, value, _ := strings.Cut(line, ": ")
			switch name {
			case "", "at":
			case "id":
				_, ok := cursorSeq(value)
				require.True(t, ok, "%q", line)
			case "event":
				event = value
				whole = whole || value == "reset"
			case "data":
				require.True(t, json.Valid([]byte(value)), "%q", line)
				if event == wire.TypeHello {
					var h wire.Hello
					require.NoError(t, json.Unmarshal([]byte(value), &h))
					whole = !h.Recovered
				}
			default:
				t.Fatalf("no line of ours: %q", line)
			}
		}
		if !known {
			require.True(t, whole, "what is not known is told again as a whole")
		}
	})
}

// FuzzPasskey: nobody is signed in, and no passkey is stored, by anything but what an
// authenticator has signed for this ceremony. The authenticator is a double: there is none
// here.
func FuzzPasskey(f *testing.F) {
	engine := newFake()
	base, err := url.Parse(teamURL)
	require.NoError(f, err)
	handler, session := open(f, engine, func(o *auth.Options) { o.BaseURL = base })
	post := func(t testing.TB, path, body string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://door"+path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+session)
		res := httptest.NewRecorder()
		handler.ServeHTTP(res, req)
		return res
	}
	begin := func(path string) (ceremony, options string) {
		res := post(f, path, "")
		require.Equal(f, 200, res.Code, "%s", res.Body)
		var c struct {
			Ceremony string
			Options  json.RawMessage
		}
		require.NoError(f, json.Unmarshal(res.Body.Bytes(), &c))
		return c.Ceremony, string(c.Options)
	}
	authenticator := virtualwebauthn.NewAuthenticator()
	rp := virtualwebauthn.RelyingParty{Name: "Banksman", ID: base.Hostname(), Origin: teamURL}
	credential := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
	ceremony, options := begin("/api/passkeys/begin")
	asked, err := virtualwebauthn.ParseAttestationOptions(options)
	require.NoError(f, err)
	authenticator.Options.UserHandle = []byte(asked.UserID)
	made := virtualwebauthn.CreateAttestationResponse(rp, authenticator, credential, *asked)
	authenticator.AddCredential(credential)
	res := post(f, "/api/passkeys/finish", `{"ceremony":"`+ceremony+`","credential":`+made+`}`)
	require.Equal(f, 200, res.Code, "%s", res.Body)

	ceremony, options = begin("/api/sign-in/passkey/begin")
	use, err := virtualwebauthn.ParseAssertionOptions(options)
	require.NoError(f, err)
	used := virtualwebauthn.CreateAssertionResponse(rp, authenticator, credential, *use)
	later, _ := begin("/api/passkeys/begin")
	ends := []struct{ path, ceremony, good string }{{"/api/sign-in/passkey/finish", ceremony, used}, {"/api/passkeys/finish", later, made}, {"/api/proof/finish", ceremony, used}, {"/api/sign-in/invite/finish", later, made}}
	for i := range ends {
		for _, s := range []string{
			``, `null`, `{}`, `[]`, `{"id":"AAAA","rawId":"AAAA","type":"public-key","response":{}}`, `{"id":1}`, "{\"id\":\"\xff\"}", `{"id":"AAAA","id":"BBBB"}`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000), `{"response":{"clientDataJSON":1e999}}`,
		} {
			f.Add(uint8(i), s, uint16(0), "")
		}
		for at := uint16(0); at < 1200; at += 37 { // a mark in the good one
			f.Add(uint8(i), "", at, "A")
			f.Add(uint8(i), "", at, `"`)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, raw string, at uint16, mark string) {
		end := ends[int(which)%len(ends)]
		if raw == "" && len(mark) > 0 {
			raw = end.good[:min(int(at), len(end.good))] + mark + end.good[min(int(at)+len(mark), len(end.good)):]
		}
		if end.path == "/api/sign-in/passkey/finish" && sameUse(raw, end.good) {
			return // the one that is good
		}
		res := post(t, end.path, `{"ceremony":"`+end.ceremony+`","credential":`+raw+`}`)
		require.GreaterOrEqual(t, res.Code, 400, "%s", res.Body)
		require.Less(t, res.Code, 500, "%s", res.Body)
		var e wire.Error
		require.NoError(t, json.Unmarshal(res.Body.Bytes(), &e))
		require.NotEmpty(t, e.Error)
		require.NotContains(t, res.Body.String(), end.ceremony)
		if hitl.CheckJSON([]byte(`{"credential":`+raw+`}`)) != nil {
			require.Equal(t, string(hitl.BadInput), e.Code)
			require.NotEmpty(t, e.Fields)
		}
		require.Empty(t, res.Header().Values("Set-Cookie"))
	})
}

// sameUse reports whether a credential says the same as the good one in all that was signed.
func sameUse(raw, good string) bool {
	type credential struct {
		RawID    string `json:"rawId"`
		Response struct{ ClientDataJSON, AuthenticatorData, Signature string }
	}
	var a, b credential
	return json.Unmarshal([]byte(raw), &a) == nil && json.Unmarshal([]byte(good), &b) == nil && a == b
}
