package origin_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/gateway/internal/door/origin"
)

// preflight asks as a browser does before a page of another site calls a method.
func preflight(t *testing.T, from, method string) http.Header {
	t.Helper()
	srv := httptest.NewServer(origin.New([]string{"https://desk.example"}).Share(http.NotFoundHandler()))
	defer srv.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, srv.URL+"/api/rules/one", nil)
	require.NoError(t, err)
	r.Header.Set("Origin", from)
	r.Header.Set("Access-Control-Request-Method", method)
	res, err := srv.Client().Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.Header
}

func TestBrowsersComeBackOverTLSOnlyToANameOfItsOwn(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"https://banksman.example":      "max-age=31536000",
		"https://banksman.example:8443": "max-age=31536000",
		"http://banksman.example":       "",
		"https://localhost:8443":        "", // every other port of this machine would need TLS as well
		"https://team.localhost:8443":   "",
		"https://127.0.0.1:8443":        "",
		"https://[::1]:8443":            "",
	} {
		u, err := url.Parse(base)
		require.NoError(t, err)
		require.Equal(t, want, origin.Locked(u, "none").Get("Strict-Transport-Security"), base)
	}
	require.Empty(t, origin.Locked(nil, "none").Get("Strict-Transport-Security"))
}

func TestAnAllowedOriginMayUseEveryMethodThatRoutesHave(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		h := preflight(t, "https://desk.example", method)
		require.Equal(t, "https://desk.example", h.Get("Access-Control-Allow-Origin"))
		require.Contains(t, strings.Split(h.Get("Access-Control-Allow-Methods"), ", "), method)
		require.Empty(t, h.Get("Access-Control-Allow-Credentials"), "a cookie must not act for another site")
	}
}

func TestAnotherOriginMayUseNoMethod(t *testing.T) {
	h := preflight(t, "https://other.example", http.MethodDelete)
	require.Empty(t, h.Get("Access-Control-Allow-Origin"))
	require.Empty(t, h.Get("Access-Control-Allow-Methods"))
}
