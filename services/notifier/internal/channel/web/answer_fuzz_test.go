package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/notifier/internal/channel"
)

// FuzzAnswer: whatever a provider answers, as those do that alerts go to: only a status of
// success is one; what is said of a refusal is the status or a plain code, and none of the
// provider's other words.
func FuzzAnswer(f *testing.F) {
	for _, status := range []int{0, 100, 199, 200, 202, 204, 299, 300, 302, 400, 401, 403, 404, 409, 410, 422, 429, 500, 502, 503, 504, 599, 999, -1} {
		for _, after := range []string{"", "0", "30", "-5", "99999999999999999999", "2147483647", "Sat, 28 Nov 2026 10:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "soon", "1e3", "\xff", "0x10", " 7"} {
			f.Add(status, after, []byte(`{"status":"invalid event","message":"secret","error":"invalid_auth","errors":["routing_key"]}`))
		}
	}
	for _, s := range []string{``, `null`, `[]`, `{}`, `{"error":1}`, `{"error":"a b"}`, `{"error":"<b>"}`, `{"error":"` + strings.Repeat("x", 65) + `"}`, `{"error":"a","error":"b"}`, "{\"error\":\"\xff\"}", `{"error":` + strings.Repeat("[", 20000), `{"error":"invalid_auth"`, `{"error":"x\u202ey"}`, `{"error":1e999}`} {
		f.Add(400, "", []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, after string, body []byte) {
		r := &Response{Status: status, Header: http.Header{"Retry-After": {after}}, Body: body, call: "POST https://provider.example"}
		p := r.Problem()
		require.Equal(t, status >= 200 && status <= 299, p == nil)
		if p == nil {
			return
		}
		require.GreaterOrEqual(t, p.RetryAfter, time.Duration(0))
		require.Equal(t, p.Class == channel.Retry, status == 429 || status >= 500, "only what may pass is tried again")
		require.True(t, strings.HasPrefix(p.Text, r.call+": "+r.Said()))
		var answer struct{ Error string }
		if !r.Read(&answer) {
			require.False(t, json.Valid(body) && strings.HasPrefix(string(body), `{"error":"`) && json.Unmarshal(body, &map[string]string{}) == nil)
			answer.Error = ""
		}
		text := r.Because(&channel.Problem{}, answer.Error).Text
		require.True(t, text == "" || text == r.call+": "+answer.Error)
		for _, c := range strings.TrimPrefix(text, r.call+": ") {
			require.True(t, c < 0x7f && (c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.ContainsRune("_-.", c)), "%q", text)
		}
		require.LessOrEqual(t, len(text), len(r.call)+2+64)
	})
}
