package notifier_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// desk stands for a gateway: it answers calls of the notifier.
type desk struct {
	mu     sync.Mutex
	calls  []wire.DecideCall
	status hitl.Status // of decide
}

func (b *bench) desk(t *testing.T) *desk {
	t.Helper()
	d := &desk{status: hitl.Accepted}
	nc := b.connect(t, bus.RoleGateway)
	_, err := nc.Subscribe("hitl.svc.default.notifier.*", func(m *nats.Msg) {
		var out any
		switch {
		case strings.HasSuffix(m.Subject, ".get"):
			var in wire.GetCall
			_ = json.Unmarshal(m.Data, &in)
			out = wire.Interaction{ID: "i", State: wire.StatePending, Summary: wire.Summary{
				Key: in.ID, Digest: "d", Kind: hitl.KindApproval, ToolName: "Bash", Body: &wire.Body{Input: `{"command":"ls"}`, Shown: "s"},
			}}
		case strings.HasSuffix(m.Subject, ".decide"):
			var in wire.DecideCall
			_ = json.Unmarshal(m.Data, &in)
			d.mu.Lock()
			d.calls = append(d.calls, in)
			out = wire.Receipt{Receipt: hitl.Receipt{Status: d.status}}
			d.mu.Unlock()
		}
		raw, _ := hitl.Marshal(out)
		_ = m.Respond(raw)
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	return d
}

func (d *desk) decided() []wire.DecideCall {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]wire.DecideCall(nil), d.calls...)
}

// asking is a configuration in which a service is asked before ada is told.
func (r *receiver) asking(t *testing.T, service, wait string) notifier.Options {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notifier.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
channels:
  - {name: hook, type: webhook, url: %q, allow_private: true, secrets: [%s]}
deciders:
  - {name: policy, url: %q, allow_private: true, secrets: [%s], token: banksman_of-the-service}
recipients:
  - {name: ada, channels: [{channel: hook}], messages: 0}
routes:
  - name: all
    steps: [{ask: policy, wait: %s}, {to: ada}]
    remind: [1m]
`, r.URL, secret, service, secret, wait), 0o600))
	cfg, err := notifier.LoadConfig(file)
	require.NoError(t, err)
	return notifier.Options{Config: cfg}
}

// What a service says is decided in its own name; whatever else happens leaves the
// request to people, after the time that was set for it at the latest.
func TestAServiceIsAskedFirst_B57_invariant4(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer  string // body; status before it if not 200
		status  int
		type_   string
		silent  bool
		refuse  hitl.Status
		decided string
		said    string // by the ledger
		state   ledger.State
	}{
		"it allows":                  {answer: `{"decision":"allow","digest":"d","comment":"rule 1"}`, decided: "allow", said: "it decided: allow", state: ledger.Sent},
		"it denies":                  {answer: `{"decision":"deny","digest":"d","message":"no"}`, decided: "deny", said: "it decided: deny", state: ledger.Sent},
		"it passes":                  {answer: `{"decision":"pass","digest":"d"}`, said: "it leaves this to people", state: ledger.Sent},
		"it answers later":           {status: 202, said: "status 202", state: ledger.Sent},
		"its answer is about more":   {answer: `{"decision":"allow","digest":"e"}`, said: "names another request", state: ledger.Failed},
		"it names no digest":         {answer: `{"decision":"allow"}`, said: "names another request", state: ledger.Failed},
		"its word is none":           {answer: `{"decision":"yes","digest":"d"}`, said: "neither allow", state: ledger.Failed},
		"it says nothing":            {answer: `{}`, said: "neither allow", state: ledger.Failed},
		"it is no JSON":              {answer: `allow`, said: "no JSON", state: ledger.Failed},
		"a key stands twice":         {answer: `{"decision":"deny","decision":"allow","digest":"d"}`, said: "no JSON", state: ledger.Failed},
		"it is a page":               {answer: `{"decision":"allow","digest":"d"}`, type_: "text/html", said: "no JSON", state: ledger.Failed},
		"it fails":                   {status: 500, answer: `{"decision":"allow","digest":"d"}`, said: "people decide", state: ledger.Failed},
		"it refuses":                 {status: 403, answer: `{"decision":"allow","digest":"d"}`, said: "status 403", state: ledger.Failed},
		"it is silent":               {silent: true, said: "people decide", state: ledger.Failed},
		"it has not the right":       {answer: `{"decision":"allow","digest":"d"}`, refuse: hitl.Forbidden, decided: "allow", said: "refused the answer (forbidden)", state: ledger.Failed},
		"what it saw has changed":    {answer: `{"decision":"allow","digest":"d"}`, refuse: hitl.DigestMismatch, decided: "allow", said: "refused the answer", state: ledger.Failed},
		"somebody decided before it": {answer: `{"decision":"allow","digest":"d"}`, refuse: hitl.AlreadyDecided, decided: "allow", said: "over first", state: ledger.Sent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			d := b.desk(t)
			if c.refuse != "" {
				d.status = c.refuse
			}
			service := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				if c.silent {
					<-r.Context().Done()
					return
				}
				w.Header().Set("Content-Type", "application/json")
				if c.type_ != "" {
					w.Header().Set("Content-Type", c.type_)
				}
				if c.status != 0 {
					w.WriteHeader(c.status)
				}
				_, _ = w.Write([]byte(c.answer))
			})
			people := newReceiver(t, nil)
			b.notify(t, people.asking(t, service.URL, "500ms"))
			ref := newRef(1)
			began := time.Now()
			b.open(t, ref, summary(ref, began))
			asked := service.next(t)
			require.Equal(t, "banksman.interaction.ask", asked.Type)
			require.Contains(t, asked.Raw, `{\"command\":\"ls\"}`, "the whole of it")
			// People are told all the same unless it is over: the end of what was decided
			// comes from the gateway, which is none here.
			told := people.next(t)
			require.Equal(t, "banksman.interaction.opened", told.Type)
			require.False(t, time.Now().Before(began.Add(500*time.Millisecond)), "people wait for the service first")
			var r *ledger.Record
			require.Eventually(t, func() bool {
				r = b.at(t, ref, "step1", "policy")
				return r != nil && r.State.Final()
			}, patience, tick)
			require.Equal(t, c.state, r.State, r.Problem)
			if c.state == ledger.Sent {
				require.Contains(t, r.Receipt.Said, c.said)
			} else {
				require.Contains(t, r.Problem, c.said)
			}
			calls := d.decided()
			if c.decided == "" {
				require.Empty(t, calls)
				return
			}
			require.Len(t, calls, 1)
			require.Equal(t, c.decided, calls[0].Decision)
			require.Equal(t, "banksman_of-the-service", calls[0].Token, "in its own name")
			require.Equal(t, ref.String(), calls[0].ID)
			require.Equal(t, []string{"d", "s"}, []string{calls[0].Digest, calls[0].Shown})
		})
	}
}

// Nobody is told of what the service has decided in time.
func TestNobodyIsToldOfWhatAServiceDecided_B68(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.desk(t)
	service := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if n == 1 {
			_, _ = w.Write([]byte(`{"decision":"allow","digest":"d"}`))
		}
	})
	people := newReceiver(t, nil)
	clk := newClock(time.Now())
	o := people.asking(t, service.URL, "2s")
	o.Clock = clk
	b.notify(t, o)
	ref := newRef(1)
	b.open(t, ref, summary(ref, clk.Now()))
	service.next(t)
	require.Eventually(t, func() bool {
		r := b.at(t, ref, "step1", "policy")
		return r != nil && r.State == ledger.Sent
	}, patience, tick)
	b.end(t, ref, summary(ref, clk.Now()), hitl.Allowed, hitl.Principal{Kind: "service", ID: "token-1", Name: "policy"})
	require.Equal(t, "banksman.interaction.closed", service.next(t).Type, "the service hears how it ended")
	require.Eventually(t, func() bool {
		r := b.at(t, ref, "step2", "ada/hook")
		return r != nil && r.State == ledger.Retracted
	}, patience, tick)
	clk.move(time.Hour)
	require.Empty(t, people.calls)
}

func TestDecidersAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"a step that asks nobody":     {"deciders: []\nroutes: [{name: a, steps: [{ask: policy}]}]", "there is no decider"},
		"a wait for nobody":           {"routes: [{name: a, steps: [{wait: 2s, to: ada}]}]", "nothing else is waited for"},
		"both at once":                {"routes: [{name: a, steps: [{ask: policy, to: ada}]}]", "a step tells people or asks a service"},
		"no token":                    {"deciders: [{name: p, url: https://h.test/, secrets: [" + secret + "]}]", "token: missing"},
		"no secret":                   {"deciders: [{name: p, url: https://h.test/, token: t}]", "secrets: missing"},
		"an address that is not safe": {"deciders: [{name: p, url: http://h.test/, token: t, secrets: [" + secret + "]}]", "must begin with https://"},
		"a name that a channel has":   {"deciders: [{name: hook, url: https://h.test/, token: t, secrets: [" + secret + "]}]", "is a channel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "channels: [{name: hook, type: log}]\nrecipients: [{name: ada, channels: [{channel: hook}]}]\n"
			if !strings.Contains(c.text, "deciders") {
				text += "deciders: [{name: policy, url: https://h.test/, token: t, secrets: [" + secret + "]}]\n"
			}
			if !strings.Contains(c.text, "routes") {
				text += "routes: [{name: a, steps: [{to: ada}]}]\n"
			}
			file := filepath.Join(t.TempDir(), "n.yaml")
			require.NoError(t, os.WriteFile(file, []byte(text+c.text), 0o600))
			_, err := notifier.LoadConfig(file)
			require.ErrorContains(t, err, c.want)
		})
	}
	// Others must not read the token.
	file := filepath.Join(t.TempDir(), "n.yaml")
	require.NoError(t, os.WriteFile(file, []byte("deciders: [{name: p, url: https://h.test/, token: t, secrets: ["+secret+"]}]"), 0o644))
	_, err := notifier.LoadConfig(file)
	require.ErrorIs(t, err, notifier.ErrConfigMode)
}
