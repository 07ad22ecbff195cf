package notifier_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// desk stands for a gateway: it answers calls of the notifier.
type desk struct {
	mu     sync.Mutex
	calls  []wire.DecideCall
	status hitl.Status // of decide
	over   subject.Ref // is decided; all else waits
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
			state := wire.StatePending
			if d.mu.Lock(); in.ID == d.over.String() {
				state = wire.StateClosed
			}
			d.mu.Unlock()
			out = wire.Interaction{ID: "i", State: state, Summary: wire.Summary{
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

// ended says which interaction is decided.
func (d *desk) ended(ref subject.Ref) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = ref
}

func (d *desk) decided() []wire.DecideCall {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]wire.DecideCall(nil), d.calls...)
}

// asking is a configuration in which a service is asked before ada is told.
func (r *receiver) asking(t *testing.T, service, wait string) notifier.Options {
	t.Helper()
	return r.askingBy(t, fmt.Sprintf("url: %q, allow_private: true, secrets: [%s]", service, secret), wait)
}

// askingBy is asking with a service that is reached as the words say.
func (r *receiver) askingBy(t *testing.T, service, wait string) notifier.Options {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notifier.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
channels:
  - {name: hook, type: webhook, url: %q, allow_private: true, secrets: [%s]}
deciders:
  - {name: policy, %s, token: banksman_of-the-service}
recipients:
  - {name: ada, channels: [{channel: hook}], messages: 0}
routes:
  - name: all
    steps: [{ask: policy, wait: %s}, {to: ada}]
    remind: [1m]
`, r.URL, secret, service, wait), 0o600))
	cfg, err := notifier.LoadConfig(file)
	require.NoError(t, err)
	return notifier.Options{Config: cfg}
}

// What a service says is decided in its own name; whatever else happens leaves the
// request to people: at once where it is known, or after the time that was set.
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
		waits   bool // people wait as long as was set
	}{
		"it allows":                  {answer: `{"decision":"allow","digest":"d","comment":"rule 1"}`, decided: "allow", said: "it decided: allow", state: ledger.Sent, waits: true},
		"it denies":                  {answer: `{"decision":"deny","digest":"d","message":"no"}`, decided: "deny", said: "it decided: deny", state: ledger.Sent, waits: true},
		"it passes":                  {answer: `{"decision":"pass","digest":"d"}`, said: "it leaves this to people", state: ledger.Sent},
		"it answers later":           {status: 202, said: "status 202", state: ledger.Sent, waits: true},
		"its answer is about more":   {answer: `{"decision":"allow","digest":"e"}`, said: "names another request", state: ledger.Failed},
		"it names no digest":         {answer: `{"decision":"allow"}`, said: "names another request", state: ledger.Failed},
		"its word is none":           {answer: `{"decision":"yes","digest":"d"}`, said: "neither allow", state: ledger.Failed},
		"it says nothing":            {answer: `{}`, said: "neither allow", state: ledger.Failed},
		"it is no JSON":              {answer: `allow`, said: "no JSON", state: ledger.Failed},
		"a key stands twice":         {answer: `{"decision":"deny","decision":"allow","digest":"d"}`, said: "no JSON", state: ledger.Failed},
		"it is a page":               {answer: `{"decision":"allow","digest":"d"}`, type_: "text/html", said: "no JSON", state: ledger.Failed},
		"it fails":                   {status: 500, answer: `{"decision":"allow","digest":"d"}`, said: "status 500", state: ledger.Planned},
		"it refuses":                 {status: 403, answer: `{"decision":"allow","digest":"d"}`, said: "status 403", state: ledger.Failed},
		"it is silent":               {silent: true, said: "people decide", state: ledger.Failed, waits: true},
		"it has not the right":       {answer: `{"decision":"allow","digest":"d"}`, refuse: hitl.Forbidden, decided: "allow", said: "refused the answer (forbidden)", state: ledger.Failed},
		"what it saw has changed":    {answer: `{"decision":"allow","digest":"d"}`, refuse: hitl.DigestMismatch, decided: "allow", said: "refused the answer", state: ledger.Failed},
		"somebody decided before it": {answer: `{"decision":"allow","digest":"d"}`, refuse: hitl.AlreadyDecided, decided: "allow", said: "over first", state: ledger.Sent, waits: true},
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
			wait := "12h"
			if c.waits {
				wait = "500ms"
			}
			b.notify(t, people.asking(t, service.URL, wait))
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
			if c.waits {
				require.False(t, time.Now().Before(began.Add(500*time.Millisecond)), "people wait for the service first")
			}
			var r *ledger.Record
			require.Eventually(t, func() bool {
				r = b.at(t, ref, "step1", "policy")
				return r != nil && (r.State.Final() || c.state == ledger.Planned && r.Problem != "")
			}, patience, tick)
			if c.state == ledger.Planned {
				require.False(t, r.State.Final(), "it is asked again")
				require.Contains(t, r.Problem, c.said)
				require.Empty(t, d.decided())
				return
			}
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

// The same over NATS, in the account of a caller: it is asked, and no other caller.
func TestAServiceOnTheBusIsAskedFirst_B57_invariant4(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer  string
		failed  bool // it says so in a header, as services of nats.go do
		silent  bool
		nobody  bool // listens
		decided string
		said    string // by the ledger
		state   ledger.State
		waits   bool
	}{
		"it allows":                {answer: `{"decision":"allow","digest":"d","comment":"rule 1"}`, decided: "allow", said: "it decided: allow", state: ledger.Sent, waits: true},
		"it denies":                {answer: `{"decision":"deny","digest":"d","message":"no"}`, decided: "deny", said: "it decided: deny", state: ledger.Sent, waits: true},
		"it passes":                {answer: `{"decision":"pass"}`, said: "it leaves this to people", state: ledger.Sent},
		"it answers later":         {said: "it decides later", state: ledger.Sent, waits: true},
		"its answer is about more": {answer: `{"decision":"allow","digest":"e"}`, said: "names another request", state: ledger.Failed},
		"it is no JSON":            {answer: `allow`, said: "no JSON", state: ledger.Failed},
		"a key stands twice":       {answer: `{"decision":"deny","decision":"allow","digest":"d"}`, said: "no JSON", state: ledger.Failed},
		"it fails":                 {answer: `{"decision":"allow","digest":"d"}`, failed: true, said: "it failed; people decide", state: ledger.Failed},
		"it is silent":             {silent: true, said: "people decide", state: ledger.Failed, waits: true},
		"nobody listens":           {nobody: true, said: "nobody listens on hitl.decider.default.policy", state: ledger.Planned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			d := b.desk(t)
			questions, others := make(chan *nats.Msg, 16), make(chan *nats.Msg, 16)
			listen := func(caller string, into chan *nats.Msg) {
				nc := b.connectAs(t, bus.RoleCaller, caller)
				_, err := nc.ChanSubscribe(subject.Decider(bus.DefaultTenant, caller), into)
				require.NoError(t, err)
				require.NoError(t, nc.Flush())
			}
			listen("other", others)
			if !c.nobody {
				listen("policy", questions)
			}
			people := newReceiver(t, nil)
			wait := "12h"
			if c.waits {
				wait = "500ms"
			}
			b.notify(t, people.askingBy(t, "caller: policy", wait))
			ref := newRef(1)
			began := time.Now()
			b.open(t, ref, summary(ref, began))
			if !c.nobody {
				var asked *nats.Msg
				select {
				case asked = <-questions:
				case <-time.After(patience):
					t.Fatal("nobody was asked")
				}
				var ev struct {
					SpecVersion, ID, Type, Subject string
					Data                           struct{ Interaction wire.Interaction }
				}
				require.NoError(t, json.Unmarshal(asked.Data, &ev))
				require.Equal(t, []string{"1.0", "banksman.interaction.ask", ref.String()}, []string{ev.SpecVersion, ev.Type, ev.Subject})
				require.True(t, strings.HasPrefix(ev.ID, "msg_"), ev.ID)
				require.Equal(t, `{"command":"ls"}`, ev.Data.Interaction.Body.Input, "the whole of it")
				require.Equal(t, "application/cloudevents+json; charset=utf-8", asked.Header.Get("Content-Type"))
				if !c.silent {
					m := &nats.Msg{Data: []byte(c.answer), Header: nats.Header{}}
					if c.failed {
						m.Header.Set("Nats-Service-Error-Code", "500")
					}
					require.NoError(t, asked.RespondMsg(m))
				}
			}
			told := people.next(t)
			require.Equal(t, "banksman.interaction.opened", told.Type)
			if c.waits {
				require.False(t, time.Now().Before(began.Add(500*time.Millisecond)), "people wait for the service first")
			}
			var r *ledger.Record
			require.Eventually(t, func() bool {
				r = b.at(t, ref, "step1", "policy")
				return r != nil && (r.State == c.state && (r.Problem != "" || r.Receipt != nil))
			}, patience, tick)
			if r.Receipt != nil {
				require.Contains(t, r.Receipt.Said, c.said)
			} else {
				require.Contains(t, r.Problem, c.said)
			}
			require.Empty(t, others)
			calls := d.decided()
			if c.decided == "" {
				require.Empty(t, calls)
				return
			}
			require.Len(t, calls, 1)
			require.Equal(t, []string{c.decided, "banksman_of-the-service", ref.String(), "d", "s"},
				[]string{calls[0].Decision, calls[0].Token, calls[0].ID, calls[0].Digest, calls[0].Shown})
		})
	}
}

// Of two services the later one is waited for, until it passes as well.
func TestPeopleWaitForTheLastService(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.desk(t)
	questions := make(chan *nats.Msg, 16)
	for _, caller := range []string{"policy", "other"} {
		nc := b.connectAs(t, bus.RoleCaller, caller)
		_, err := nc.ChanSubscribe(subject.Decider(bus.DefaultTenant, caller), questions)
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
	}
	people := newReceiver(t, nil)
	cfg := people.askingBy(t, "caller: policy", "12h").Config
	cfg.Deciders = append(cfg.Deciders, notifier.Decider{Name: "other", Caller: "other", Token: "banksman_of-another"})
	first := cfg.Routes[0].Steps[0]
	second := first
	second.Ask = "other"
	cfg.Routes[0].Steps = slices.Insert(cfg.Routes[0].Steps, 1, second)
	b.notify(t, notifier.Options{Config: cfg})
	ref := newRef(1)
	b.open(t, ref, summary(ref, time.Now()))
	pass := func() string {
		select {
		case m := <-questions:
			require.NoError(t, m.Respond([]byte(`{"decision":"pass"}`)))
			return m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		case <-time.After(patience):
			t.Fatal("nobody was asked")
		}
		return ""
	}
	step := map[string]ledger.Step{"policy": "step1", "other": "step2"}
	one := pass()
	b.awaitAt(t, ref, step[one], one, ledger.Sent)
	require.Empty(t, people.calls, "the other one may decide still")
	pass()
	require.Equal(t, "banksman.interaction.opened", people.next(t).Type)
}

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
		"both ways":                   {"deciders: [{name: p, caller: bot, url: https://h.test/, token: t}]", "asked over NATS or over HTTP"},
		"a caller that is no name":    {"deciders: [{name: p, caller: b.ot, token: t}]", "is not the name of a caller"},
		"a caller without a token":    {"deciders: [{name: p, caller: bot}]", "token: missing"},
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
