package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// What follows is the code of docs/interactive-tools.md: the guide's blocks are
// held against this file.

func deploy(ctx context.Context, client *bus.Client) error {
	ans, err := client.Ask(ctx, &hitl.Request{
		Kind: hitl.KindApproval, SessionID: "release-1.2", Key: "release-1.2/deploy",
		Title: "Deploy version 1.2",
		Tool:  &hitl.Tool{Name: "Deploy", Input: json.RawMessage(`{"version":"1.2"}`)},
	})
	if err != nil {
		return fmt.Errorf("not deployed: %w", err) // nobody allowed it
	}
	if ans.Decision.Outcome != hitl.Allowed {
		return fmt.Errorf("not deployed: %s %s", ans.Decision.Outcome, ans.Decision.Message)
	}
	input := json.RawMessage(`{"version":"1.2"}`)
	if ans.Decision.UpdatedInput != nil {
		input = ans.Decision.UpdatedInput // the person edited it
	}
	if err := run(input); err != nil {
		return errors.Join(err, client.Ack(ctx, ans.Ref, hitl.Refused, ans.Decision.DecisionID, err.Error()))
	}
	return client.Ack(ctx, ans.Ref, hitl.Applied, ans.Decision.DecisionID, "")
}

func run(input json.RawMessage) error {
	if string(input) != `{"version":"1.3"}` {
		return fmt.Errorf("another input: %s", input)
	}
	return nil
}

func chooseDatabase(ctx context.Context, client *bus.Client) (string, error) {
	ask := &hitl.Request{
		Kind: hitl.KindQuestion, SessionID: "scaffold", Key: "scaffold/database", Title: "Which database?",
		Questions: []hitl.Question{{
			ID: "db", Header: "Database", Question: "Which database should the service use?",
			Options: []hitl.Option{{Label: "Postgres"}, {Label: "SQLite", Description: "no server to run"}},
		}},
	}
	ans, err := client.Ask(ctx, ask)
	if err != nil {
		return "", err
	}
	if ans.Decision.Outcome != hitl.Answered {
		return "", errors.New(hitl.AgentText(ask, &ans.Decision.Content))
	}
	db := ans.Decision.Answers[0]
	return strings.Join(append(db.Values, db.Other), ""), nil
}

// The bodies that the guide shows.
const (
	guideAllow = `{"request_id": "…", "digest": "…", "decision": "allow", "updated_input": "{\"version\":\"1.3\"}"}`

	guideAnswer = `{"request_id": "…", "answers": {"db": "SQLite"}}`

	guideRating = `{"request_id": "…", "digest": "…", "content": "{\"stars\":4,\"why\":\"a clear first line\"}"}`
)

type ratingData struct {
	Text string `json:"text"` // what is rated
	Max  int    `json:"max"`  // stars
}

type rating struct {
	Stars int    `json:"stars"`
	Why   string `json:"why,omitempty"`
}

func init() {
	hitl.RegisterKind(hitl.Kind{
		Name:   "rating",
		Verbs:  []string{hitl.VerbAnswer, hitl.VerbClarify, hitl.VerbDismiss},
		Asks:   "asks for a rating",
		Check:  checkRating,
		View:   viewRating,
		Answer: answerRating,
		ExpiredText: func(budget time.Duration) string {
			return "Nobody rated it within " + hitl.Budget(budget)
		},
		WithdrawnText: "The rating was withdrawn before anybody gave one",
	})
}

func checkRating(r *hitl.Request) []hitl.Field {
	var d ratingData
	switch err := json.Unmarshal(r.Data, &d); {
	case err != nil:
		return []hitl.Field{{Field: "data", Problem: "is no rating: " + err.Error()}}
	case d.Text == "":
		return []hitl.Field{{Field: "data.text", Problem: "is missing"}}
	case d.Max < 2 || d.Max > 10:
		return []hitl.Field{{Field: "data.max", Problem: "must be 2 to 10"}}
	}
	return nil
}

func viewRating(r *hitl.Request) []hitl.Block {
	var d ratingData
	_ = json.Unmarshal(r.Data, &d) // checked
	return []hitl.Block{
		hitl.TextBlock("To be rated", "text", d.Text),
		hitl.TextBlock("Stars", "text", fmt.Sprint(d.Max)),
	}
}

func answerRating(r *hitl.Request, _ *hitl.Response, c *hitl.Content) []hitl.Field {
	var d ratingData
	_ = json.Unmarshal(r.Data, &d) // checked
	var a rating
	if err := json.Unmarshal(c.Content, &a); err != nil {
		return []hitl.Field{{Field: "content", Problem: "is no rating: " + err.Error()}}
	}
	if a.Stars < 1 || a.Stars > d.Max {
		return []hitl.Field{{Field: "content.stars", Problem: fmt.Sprintf("must be 1 to %d", d.Max)}}
	}
	return nil
}

func TestRatingKind_D2_10(t *testing.T) {
	hitltest.KindSuite(t, hitltest.KindExample{
		Request: hitl.Request{
			Kind: "rating", SessionID: "newsletter", Title: "How good is draft 7?",
			Data: json.RawMessage(`{"text":"Dear readers","max":5}`),
		},
		Broken: map[string]func(*hitl.Request){
			"data":     func(r *hitl.Request) { r.Data = nil },
			"data.max": func(r *hitl.Request) { r.Data = json.RawMessage(`{"text":"Dear readers","max":50}`) },
		},
		Answers: []hitl.Response{{Content: json.RawMessage(`{"stars":5,"why":"short"}`)}},
		Wrong: map[string]hitl.Response{
			"content":       {Content: json.RawMessage(`{"stars":"five"}`)},
			"content.stars": {Content: json.RawMessage(`{"stars":6}`)},
		},
	})
}

func askRating(ctx context.Context, client *bus.Client, key string) (rating, error) {
	ask := &hitl.Request{
		Kind: "rating", SessionID: "newsletter", Key: key, Title: "How good is draft 7?",
		Data: json.RawMessage(`{"text":"Dear readers","max":5}`),
	}
	var got rating
	ans, err := client.Ask(ctx, ask)
	if err != nil {
		return got, err
	}
	if ans.Decision.Outcome != hitl.Answered {
		return got, errors.New(hitl.AgentText(ask, &ans.Decision.Content))
	}
	if err := json.Unmarshal(ans.Decision.Content.Content, &got); err != nil {
		return got, err
	}
	return got, client.Ack(ctx, ans.Ref, hitl.Applied, ans.Decision.DecisionID, "")
}

// The tests of that code.

// background runs what asks, and hands its outcome over.
func background[T any](t *testing.T, fn func() (T, error)) <-chan struct {
	val T
	err error
} {
	t.Helper()
	got := make(chan struct {
		val T
		err error
	}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, err := fn()
		got <- struct {
			val T
			err error
		}{v, err}
	}()
	t.Cleanup(func() { <-done })
	return got
}

// fill puts an interaction into a body of the guide.
func fill(body string, s wire.Summary) string {
	body = strings.Replace(body, `"request_id": "…"`, `"request_id": "`+s.Key+`"`, 1)
	return strings.Replace(body, `"digest": "…"`, `"digest": "`+s.Digest+`"`, 1)
}

// The guide's two flows, from the tool that asks to the answer it goes on with.
func TestGuideFlows_D0_50(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	client := s.client("agents")
	page := newOverSocket(t, g)

	deployed := background(t, func() (struct{}, error) { return struct{}{}, deploy(t.Context(), client) })
	sum := page.seen(hitl.ID(bus.DefaultTenant, "agents", "release-1.2/deploy", 1))
	require.Equal(t, "tool", sum.Presentation)
	status, raw := g.call(http.MethodPost, "/api/interactions/"+sum.Key+"/decision", g.token, fill(guideAllow, sum))
	require.Equal(t, 200, status, string(raw))
	require.NoError(t, (<-deployed).err)
	require.Eventually(t, func() bool {
		trail := g.whole(sum.Key).Trail
		return len(trail) > 0 && trail[len(trail)-1].Stage == hitl.Applied
	}, patience, 5*time.Millisecond)

	chosen := background(t, func() (string, error) { return chooseDatabase(t.Context(), client) })
	sum = page.seen(hitl.ID(bus.DefaultTenant, "agents", "scaffold/database", 1))
	require.Equal(t, "questionnaire", sum.Presentation)
	status, raw = g.call(http.MethodPost, "/api/sessions/scaffold/submit-answers", g.token, fill(guideAnswer, sum))
	require.Equal(t, 200, status, string(raw))
	got := <-chosen
	require.NoError(t, got.err)
	require.Equal(t, "SQLite", got.val)
}

// A kind that nothing but its own code knows goes every way that the others go:
// asked, listed, shown, refused where it is wrong, decided through each door,
// recorded, told, and expired.
func TestGuideNewKind_D0_50_D2_10(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	client := s.client("agents")
	records := journal.New(s.connect(bus.RoleGateway), journal.Options{Keys: s.creds(bus.RoleGateway, "").PublicDecisionKeys()})
	for _, c := range waysIn(g, s.client("cli")) {
		name, door := c.name, c.open(t)
		key := "newsletter/" + name
		id := hitl.ID(bus.DefaultTenant, "agents", key, 1)
		rated := background(t, func() (rating, error) { return askRating(t.Context(), client, key) })

		sum := door.seen(id)
		require.Equal(t, "rating", sum.RequestType, name)
		require.Equal(t, "questionnaire", sum.Presentation, name)
		require.Equal(t, "agents asks for a rating", sum.Headline, name)
		body := g.whole(sum.Key).Body
		require.Equal(t, []string{hitl.VerbAnswer, hitl.VerbClarify, hitl.VerbDismiss}, body.Verbs, name)
		require.Equal(t, []hitl.Block{{Label: "To be rated", Form: "text", Text: "Dear readers", Lines: 1}, {Label: "Stars", Form: "text", Text: "5", Lines: 1}}, body.Blocks, name)

		rec := door.decide(answerTo(sum, func(in *hitl.Response) { in.Content = json.RawMessage(`{"stars":6}`) }))
		require.Equal(t, hitl.BadInput, rec.Status, name)
		require.Equal(t, "content.stars", rec.Fields[0].Field, name)
		rec = door.decide(answerTo(sum, func(in *hitl.Response) { in.Decision = "allow" }))
		require.Equal(t, hitl.BadInput, rec.Status, name)
		door.seen(id)

		var in hitl.Response
		require.NoError(t, json.Unmarshal([]byte(fill(guideRating, sum)), &in), name)
		rec = door.decide(answerTo(sum, func(to *hitl.Response) { to.Content = in.Content }))
		require.Equal(t, hitl.Accepted, rec.Status, "%s: %s", name, rec.Error)
		got := <-rated
		require.NoError(t, got.err, name)
		require.Equal(t, rating{Stars: 4, Why: "a clear first line"}, got.val, name)
		over := door.closed(id)
		require.Equal(t, hitl.Answered, over.Outcome, name)
		require.JSONEq(t, `{"stars":4,"why":"a clear first line"}`, string(over.Decision.Content.Content), name)

		stored, err := records.Decision(t.Context(), subject.NewRef(bus.DefaultTenant, "agents", id))
		require.NoError(t, err, name)
		require.Equal(t, rec.Decision.DecisionID, stored.DecisionID, name)
		asked, err := stored.Request()
		require.NoError(t, err, name)
		require.Contains(t, string(asked), `"data":{"text":"Dear readers","max":5}`, name)
	}

	soon := hitl.Duration(time.Second)
	ask := &hitl.Request{
		Kind: "rating", SessionID: "newsletter", Key: "late", Title: "Too late", ExpiresIn: &soon,
		Data: json.RawMessage(`{"text":"Dear readers","max":5}`),
	}
	ans, err := client.Ask(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, hitl.Expired, ans.Decision.Outcome)
	require.Equal(t, "Nobody rated it within 1 second", hitl.AgentText(ask, &ans.Decision.Content))
	_, err = client.Ask(t.Context(), &hitl.Request{
		Kind: "rating", SessionID: "newsletter", Key: "wrong", Title: "Wrong", Data: json.RawMessage(`{"max":5}`),
	})
	require.ErrorContains(t, err, "data.text: is missing")
}
