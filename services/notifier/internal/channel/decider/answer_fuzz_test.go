package decider

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/webhook"
)

// gateway keeps what is decided.
type gateway struct{ decided []wire.DecideCall }

func (g *gateway) Get(_ context.Context, id string) (*wire.Interaction, error) {
	return &wire.Interaction{ID: "i", State: wire.StatePending, Summary: wire.Summary{Key: id, Digest: "d", Body: &wire.Body{Shown: "s"}}}, nil
}

func (g *gateway) Decide(_ context.Context, in wire.DecideCall) (*wire.Receipt, error) {
	g.decided = append(g.decided, in)
	return &wire.Receipt{Receipt: hitl.Receipt{Status: hitl.Accepted}}, nil
}

// FuzzAnswer: a service decides by one whole answer in JSON that says allow or deny of
// what it was asked, over HTTP and over NATS alike; anything else leaves it to people, in
// words of ours. The service is real over HTTP, and a double on the bus.
func FuzzAnswer(f *testing.F) {
	var body []byte
	var kind string
	status := 200
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{kind}
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	f.Cleanup(service.Close)
	failed := ""
	g := &gateway{}
	o := Options{
		Options: webhook.Options{URL: service.URL, AllowPrivate: true, Secrets: []string{"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}, Source: "https://banksman.test"},
		Token:   "banksman_secret", Gateway: func() Gateway { return g }, Clock: time.Now,
	}
	overHTTP, err := New(o)
	require.NoError(f, err)
	f.Cleanup(overHTTP.Close)
	o.Subject, o.Bus = "hitl.decider.t.ci", func(context.Context, *nats.Msg) (*nats.Msg, error) {
		m := &nats.Msg{Header: nats.Header{}, Data: body}
		if failed != "" {
			m.Header.Set(micro.ErrorCodeHeader, failed)
		}
		return m, nil
	}
	overNATS, err := New(o)
	require.NoError(f, err)
	for _, s := range []string{
		``, `null`, `[]`, `{}`, `{"decision":"allow","digest":"d"}`, `{"decision":"deny","digest":"d","message":"no","comment":"c"}`, `{"decision":"pass"}`, `{"decision":"allow"}`, `{"decision":"allow","digest":"e"}`, `{"decision":"ALLOW","digest":"d"}`, `{"decision":"allow ","digest":"d"}`,
		`{"decision":"allow","digest":"d"`, `{"decision":"allow","digest":"d"}{}`, `{"decision":"deny","decision":"allow","digest":"d"}`, `{"decision":"deny","Decision":"allow","digest":"d"}`, "{\"decision\":\"deny\",\"digest\":\"d\",\"message\":\"\xff\"}", `{"decision":true,"digest":"d"}`, `{"decision":["allow"],"digest":"d"}`,
		`{"decision":"allow","digest":1e999}`, `{"decision":"deny","digest":"d","message":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, `{"decision":"deny","digest":"d","message":"` + strings.Repeat("x", 70_000) + `"}`, `allow`,
	} {
		f.Add([]byte(s), true, "application/json", uint16(200), "")
		f.Add([]byte(s), false, "", uint16(200), "")
	}
	for _, k := range []string{"", "text/html", "application/json; charset=utf-8", "application/jsonp", "\xff", "application/json, text/html"} {
		f.Add([]byte(`{"decision":"allow","digest":"d"}`), true, k, uint16(200), "")
	}
	for _, code := range []uint16{201, 202, 204, 302, 400, 410, 429, 500} {
		f.Add([]byte(`{"decision":"allow","digest":"d"}`), true, "application/json", code, "")
	}
	f.Add([]byte(`{"decision":"allow","digest":"d"}`), false, "", uint16(200), "500")
	f.Fuzz(func(t *testing.T, answer []byte, web bool, contentType string, code uint16, failure string) {
		if code < 200 || code > 599 {
			return // no final answer of HTTP
		}
		body, kind, status, failed, g.decided = answer, contentType, int(code), failure, nil
		c := overNATS
		if web {
			c = overHTTP
		}
		a := channel.Alert{Type: channel.Opened, Key: "default.agents.i", Until: time.Now().Add(time.Minute)}
		rec, err := c.Send(t.Context(), a)
		if err != nil {
			var p *channel.Problem
			require.True(t, errors.As(err, &p))
			require.NotContains(t, p.Text, "secret")
			require.Less(t, len(p.Text), 256, "none of the service's words")
		}
		if len(g.decided) == 0 {
			require.NotContains(t, rec.Said, "it decided")
			return
		}
		require.NoError(t, err)
		require.False(t, rec.Pass)
		require.True(t, web || failure == "")
		if web {
			require.True(t, code/100 == 2 && code != 202 && code != 204)
			require.True(t, strings.HasPrefix(strings.ToLower(strings.TrimSpace(contentType)), "application/json"))
		}
		require.NoError(t, hitl.CheckJSON(answer), "whole, and to be read in one way")
		var said Answer
		require.NoError(t, json.Unmarshal(answer, &said))
		require.Equal(t, []wire.DecideCall{{ID: a.Key, Token: "banksman_secret", Response: hitl.Response{
			Digest: "d", Decision: said.Decision, Message: said.Message, Comment: said.Comment, Shown: "s",
		}}}, g.decided)
		require.Contains(t, []string{Allow, Deny}, said.Decision)
		require.Equal(t, "d", said.Digest)
	})
}
