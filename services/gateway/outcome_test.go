package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway"
)

// Every outcome there is, from an asker through a server and a gateway and
// back: one record, one closed event, told by its own name and in its own
// words.
func TestEveryOutcome_B11_B12_B32_D1_16_invariant1_invariant4(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway(func(o *gateway.Options) { o.Quota = &gateway.Quota{OpenBytes: 64 << 10} })
	c := s.client("agents")
	records := journal.New(s.connect(bus.RoleGateway), journal.Options{Keys: s.creds(bus.RoleGateway, "").PublicDecisionKeys()})
	decide := func(body string) func(*testing.T, *hitl.Request, subject.Ref) {
		return func(t *testing.T, _ *hitl.Request, ref subject.Ref) {
			ix := g.whole(ref.String())
			status, raw := g.call(http.MethodPost, "/api/interactions/"+ref.String()+"/decision", g.token,
				strings.Replace(body, "{", `{"digest":"`+ix.Digest+`",`, 1))
			require.Equal(t, http.StatusOK, status, string(raw))
		}
	}
	question := func(r *hitl.Request) {
		r.Kind, r.Tool = hitl.KindQuestion, nil
		r.Questions = []hitl.Question{{Question: "Which?", Options: []hitl.Option{{Label: "A"}, {Label: "B"}}}}
	}
	soon := func(r *hitl.Request) { d := hitl.Duration(300 * time.Millisecond); r.ExpiresIn = &d }
	rows := []struct {
		name   string
		change func(*hitl.Request)
		end    func(*testing.T, *hitl.Request, subject.Ref)
		want   hitl.Outcome
		by     string
		words  string
	}{
		{"allowed", nil, decide(`{"decision":"allow"}`), hitl.Allowed, "person", ""},
		{"denied", nil, decide(`{"decision":"deny"}`), hitl.Denied, "person", hitl.DefaultDenyMessage},
		{"denied with a reason", nil, decide(`{"decision":"deny","message":"Not on a Friday"}`), hitl.Denied, "person", "Not on a Friday"},
		{"answered", question, decide(`{"answers":{"0":"B"}}`), hitl.Answered, "person", ""},
		{"clarify", question, decide(`{"action":"clarify","message":"Which of what?"}`), hitl.Clarify, "person", "Which of what?"},
		{"dismissed", question, decide(`{"action":"dismiss"}`), hitl.Dismissed, "person", "A person closed this without answering"},
		{"an approval dismissed", nil, decide(`{"action":"dismiss"}`), hitl.Dismissed, "person", "A person closed this without answering"},
		{"expired", soon, nil, hitl.Expired, "system", "Tool approval timed out after 300ms"},
		{"a question expired", func(r *hitl.Request) { question(r); soon(r) }, nil, hitl.Expired, "system", "User did not respond within 300ms"},
		{"cancelled", nil, func(t *testing.T, _ *hitl.Request, ref subject.Ref) {
			require.NoError(t, c.Withdraw(t.Context(), ref, hitl.Withdrawal{V: 1}))
		}, hitl.Cancelled, "asker", "withdrawn before anybody decided"},
		{"orphaned", nil, func(t *testing.T, r *hitl.Request, _ subject.Ref) {
			_, err := c.Claim(t.Context(), &hitl.SessionState{
				SessionID: r.SessionID, Worker: "w", Generation: 1, Runtime: "demo", State: hitl.StateDead,
			})
			require.NoError(t, err)
		}, hitl.Orphaned, "system", "lost before anybody decided"},
		{"invalid", func(r *hitl.Request) { r.Message = strings.Repeat("m", 100<<10) }, nil, hitl.InvalidIX, "system", "refused and shown to nobody"},
	}
	said := map[string]string{}
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := request("outcome " + row.name)
			r.SessionID = "s-" + strings.ReplaceAll(row.name, " ", "-")
			if row.change != nil {
				row.change(r)
			}
			opened := make(chan subject.Ref, 1)
			type result struct {
				a   *bus.Answer
				err error
			}
			got := make(chan result, 1)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			go func() {
				a, err := c.Ask(ctx, r, bus.OnOpen(func(o bus.Opened) { opened <- o.Ref }))
				got <- result{a, err}
			}()
			if row.end != nil {
				ref := <-opened
				require.Eventually(t, func() bool {
					status, _ := g.call(http.MethodGet, "/api/interactions/"+ref.String(), g.token, "")
					return status == http.StatusOK
				}, patience, 10*time.Millisecond)
				row.end(t, r, ref)
			}
			res := <-got
			require.NoError(t, res.err)
			d, ref := res.a.Decision, res.a.Ref
			require.Equal(t, row.want, d.Outcome)
			require.Equal(t, row.by, d.Principal.Kind)
			if row.want == hitl.Answered {
				require.Equal(t, []string{"B"}, d.Answers[0].Values)
			} else {
				require.Empty(t, d.Answers, "no answer where nobody gave one")
			}
			text := hitl.AgentText(r, &d.Content)
			require.Contains(t, text, row.words)
			require.Equal(t, row.words == "", text == "", text)
			if text != "" && !strings.HasPrefix(row.name, "an approval") {
				require.NotContains(t, said, text, "each outcome has words of its own")
				said[text] = row.name
			}

			// One record; one closed event, and none that says otherwise.
			var events []string
			closed := func(m journal.Message) error {
				var ev struct{ Outcome hitl.Outcome }
				require.NoError(t, json.Unmarshal(m.Data, &ev))
				events = append(events, string(ev.Outcome))
				return nil
			}
			filter := []string{"hitl.ixe." + ref.Tenant + "." + ref.Owner + ".*." + ref.ID + ".closed"}
			require.Eventually(t, func() bool {
				events = nil
				require.NoError(t, records.Read(t.Context(), journal.Events, 1, filter, closed))
				_, err := records.Request(t.Context(), ref)
				return len(events) > 0 && err != nil
			}, patience, 10*time.Millisecond)
			require.Equal(t, []string{string(row.want)}, events)
			pos, err := records.Position(t.Context(), journal.Decisions)
			require.NoError(t, err)
			require.EqualValues(t, i+1, pos.Last, "one record each")
		})
	}
}
