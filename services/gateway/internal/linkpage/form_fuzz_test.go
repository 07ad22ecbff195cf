package linkpage

import (
	"context"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/role"
	"github.com/banksman/banksman/services/gateway/internal/ticket"
)

// desk is an engine in which everything waits, and that keeps what is decided.
type desk struct {
	api.Engine
	ready    chan struct{}
	attempts []api.Attempt
}

func (d *desk) Ready() <-chan struct{} { return d.ready }

func (d *desk) Interaction(_ context.Context, key string) (*wire.Interaction, error) {
	return &wire.Interaction{ID: "i", State: wire.StatePending, Summary: wire.Summary{
		Key: key, Tenant: "default", Kind: hitl.KindApproval, Digest: "d", Risk: "low", Headline: "make test", Body: &wire.Body{Verbs: []string{hitl.VerbAllow, hitl.VerbDeny}, Shown: "s"},
	}}, nil
}

func (d *desk) Decide(_ context.Context, a api.Attempt) wire.Receipt {
	d.attempts = append(d.attempts, a)
	return wire.Receipt{Receipt: hitl.Receipt{Status: hitl.Accepted}}
}

// Who makes everybody an approver.
func (*desk) Who(_ context.Context, id string) (hitl.Principal, role.Set, error) {
	return hitl.Principal{Kind: "person", ID: id, Name: "Ada"}, role.Everything(), nil
}

var typed = regexp.MustCompile(`(?s)<textarea [^>]*>(.*?)</textarea>`)

// FuzzForm: looking decides nothing, nor does a form that is not whole, in one form and
// readable in one way; what somebody typed comes back as text. The engine is a double, the
// tickets lie on a real server.
func FuzzForm(f *testing.F) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, JetStreamMaxStore: 64 << 30, StoreDir: f.TempDir(), NoSigs: true, NoLog: true, MaxPayload: 8 << 20})
	require.NoError(f, err)
	srv.Start()
	require.True(f, srv.ReadyForConnections(20*time.Second))
	nc, err := nats.Connect(srv.ClientURL())
	require.NoError(f, err)
	f.Cleanup(func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	require.NoError(f, journal.Provision(f.Context(), nc, journal.Config{}))
	d := &desk{ready: make(chan struct{})}
	close(d.ready)
	base, err := url.Parse("https://banksman.test")
	require.NoError(f, err)
	book, err := ticket.Open(f.Context(), ticket.Options{Conn: nc, Engine: d, People: d, Logger: slog.New(slog.DiscardHandler), BaseURL: base})
	require.NoError(f, err)
	p := &Page{Options{Tickets: book, Engine: d, People: d, Logger: slog.New(slog.DiscardHandler)}}
	const good = "digest=d&shown=s&word=deny&message="
	for _, s := range []string{
		"", good, "digest=d&shown=s&word=approve", good + "no", "digest=d&shown=s&word=approve&message=why", "digest=e&shown=s&word=deny", "digest=d&word=deny", "digest=d&shown=s", "digest=d&shown=s&word=yes", "digest=d&shown=s&word=+DENY%0a", "digest=d&shown=s&word=deny%00",
		good + "&word=approve", "digest=d&shown=s&word=approve&word=deny", "digest=e&digest=d&shown=s&word=deny", good + "%ff%fe", good + "%", good + "%zz", good + ";x", "digest=d;shown=s;word=deny", good + "%3Cscript%3Ealert(1)%3C/script%3E", "word=no&message=%3C/textarea%3E%3Cscript%3Ealert(1)%3C/script%3E",
		"word=no&message=%22%27%26lt;%00%0d%0a", good + strings.Repeat("x", maxForm), strings.Repeat("a=b&", 3000) + good, "WORD=deny&digest=d&shown=s", "\xff", `{"digest":"d","shown":"s","word":"deny"}`, "word=deny", good + "%e2%80%ae",
	} {
		f.Add(uint8(0), true, s, "")
		f.Add(uint8(1), true, s, "")
		f.Add(uint8(2), true, s, s)
		f.Add(uint8(0), false, s, "")
	}
	tickets, token, tenant := 0, "", ""
	f.Fuzz(func(t *testing.T, method uint8, form bool, body, query string) {
		if token == "" { // each tenant may have so many a day
			tickets++
			tenant = fmt.Sprintf("t%d", tickets)
			out, refused := book.Mint(t.Context(), tenant, wire.TicketCall{Key: tenant + ".agents.i", People: []string{"ada"}, Recipient: "ada", Channel: "mail", Via: wire.TicketLink})
			require.Nil(t, refused)
			token = out.Token
		}
		methods := []string{http.MethodPost, http.MethodGet, http.MethodHead, http.MethodPut}
		req := httptest.NewRequestWithContext(t.Context(), methods[int(method)%len(methods)], ticket.Page+token, strings.NewReader(body))
		req.URL.RawQuery = query
		if form {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		res := httptest.NewRecorder()
		d.attempts = nil
		p.ServeHTTP(res, req)
		require.Less(t, res.Code, 500)
		require.Equal(t, contentPolicy, res.Header().Get("Content-Security-Policy"))
		text := res.Body.String()
		require.True(t, utf8.ValidString(text))
		require.NotContains(t, text, token)
		require.NotContains(t, text, "<script")
		said, err := url.ParseQuery(body)
		once := err == nil
		for _, v := range said {
			once = once && len(v) == 1
		}
		if m := typed.FindStringSubmatch(text); m != nil {
			require.NotContains(t, m[1], "<")
			if back := html.UnescapeString(m[1]); back != "" {
				require.Equal(t, strings.ReplaceAll(strings.TrimSpace(said.Get("message")), "\x00", "\ufffd"), back)
			}
		}
		if len(d.attempts) == 0 {
			require.NotEqual(t, http.StatusSeeOther, res.Code)
			return
		}
		token = "" // it is used
		require.Len(t, d.attempts, 1)
		require.Equal(t, http.StatusSeeOther, res.Code)
		require.True(t, req.Method == http.MethodPost && form && once, "said on purpose, and in one way")
		a := d.attempts[0]
		require.Equal(t, map[string]string{"deny": hitl.VerbDeny, "approve": hitl.VerbAllow}[strings.ToLower(strings.TrimSpace(said.Get("word")))], a.Decision)
		require.Equal(t, []string{"d", said.Get("shown"), strings.TrimSpace(said.Get("message"))}, []string{a.Digest, a.Shown, a.Message})
		require.NotEmpty(t, a.Shown)
		require.True(t, utf8.ValidString(a.Message+a.Shown))
		require.False(t, a.Decision == hitl.VerbAllow && a.Message != "")
		require.Equal(t, []string{"ada", tenant + ".agents.i", "link:mail", "link"}, []string{a.Principal.ID, a.RequestID, a.Channel, a.Assurance})
	})
}
