package hitltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// KindExample is what KindSuite needs to know of a kind.
type KindExample struct {
	// Request is good, with all that the kind can have. Its ids are filled in.
	Request hitl.Request
	// Broken make a request that is refused, by the field that is named.
	Broken map[string]func(*hitl.Request)
	// Answers are taken: they allow or answer.
	Answers []hitl.Response
	// Wrong are refused, by the field that is named.
	Wrong map[string]hitl.Response
}

// KindSuite is what every kind of request has to pass: whoever asks, shows,
// decides and is told relies on it.
func KindSuite(t *testing.T, e KindExample) {
	r := e.Request
	r.V, r.Tenant, r.Owner, r.Key, r.AgentName = 1, "default", "agents", "k", "build-7"
	r.ID = hitl.ID(r.Tenant, r.Owner, r.Key, 1)
	kind, ok := hitl.LookupKind(r.Kind)
	require.True(t, ok, "the kind is not registered")
	named := func(t *testing.T, err error, field string) {
		t.Helper()
		var inv *hitl.InvalidError
		require.True(t, errors.As(err, &inv), "it is not refused")
		require.Equal(t, field, inv.Fields[0].Field)
		require.NotEmpty(t, inv.Fields[0].Problem)
	}
	t.Run("a request stays itself", func(t *testing.T) {
		raw, err := hitl.Marshal(&r)
		require.NoError(t, err)
		got, err := hitl.ParseRequest(raw)
		require.NoError(t, err)
		again, err := hitl.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, string(raw), string(again))
	})
	for field, breakIt := range e.Broken {
		t.Run("a request is refused for "+field, func(t *testing.T) {
			broken := r
			breakIt(&broken)
			named(t, broken.Validate(), field)
		})
	}
	t.Run("all of its data is shown, and none in the headline", func(t *testing.T) {
		var shown strings.Builder
		for _, b := range hitl.View(&r) {
			shown.WriteString(b.Text + b.Old + b.New + "\n")
		}
		line := hitl.Headline(&r)
		require.True(t, strings.HasPrefix(line, "build-7 "), line)
		for _, leaf := range leaves(t, r.Data) {
			require.True(t, strings.Contains(shown.String(), leaf) || strings.Contains(shown.String(), literal(t, leaf)), "%q is not shown", leaf)
			require.NotContains(t, line, leaf)
		}
		bare := hitl.Request{Kind: r.Kind, AgentName: r.AgentName}
		require.True(t, strings.HasPrefix(hitl.Headline(&bare), "build-7 "), "a person who may see no more sees that")
	})
	require.NotEmpty(t, e.Answers)
	for i, a := range e.Answers {
		c, err := hitl.Evaluate(&r, &a)
		require.NoError(t, err, "answer %d", i)
		require.Contains(t, []hitl.Outcome{hitl.Allowed, hitl.Answered}, c.Outcome)
		require.True(t, kind.Fits(c), "the asker would refuse answer %d", i)
		a.RequestType = kind.RequestType
		again, err := hitl.Evaluate(&r, &a)
		require.NoError(t, err, "answer %d with its type", i)
		if len(a.Content) > 0 { // a page sends it as text
			a.Content, err = json.Marshal(string(a.Content))
			require.NoError(t, err)
			again, err = hitl.Evaluate(&r, &a)
			require.NoError(t, err, "answer %d as text", i)
		}
		require.Equal(t, c, again)
		a.RequestType = "another"
		_, err = hitl.Evaluate(&r, &a)
		named(t, err, "request_type")
	}
	for field, w := range e.Wrong {
		t.Run("an answer is refused for "+field, func(t *testing.T) {
			_, err := hitl.Evaluate(&r, &w)
			named(t, err, field)
		})
	}
	t.Run("silence is no answer", func(t *testing.T) {
		_, err := hitl.Evaluate(&r, &hitl.Response{})
		require.Error(t, err)
		for _, nothing := range []string{`{}`, `[]`, `""`, `"{}"`} {
			for _, w := range []hitl.Response{{Answers: json.RawMessage(nothing)}, {Content: json.RawMessage(nothing)}} {
				c, err := hitl.Evaluate(&r, &w)
				require.Error(t, err, "%s became %+v", nothing, c)
			}
		}
		require.False(t, kind.Fits(&hitl.Content{Outcome: hitl.Answered}))
	})
	t.Run("its verbs and no others", func(t *testing.T) {
		for verb, w := range map[string]hitl.Response{
			hitl.VerbAllow: {Decision: "allow"}, hitl.VerbDeny: {Decision: "deny"},
			hitl.VerbClarify: {Action: "clarify", Message: "which?"}, hitl.VerbDismiss: {Action: "dismiss"},
		} {
			_, err := hitl.Evaluate(&r, &w)
			require.Equal(t, kind.Has(verb), err == nil, "%s: %v", verb, err)
		}
		require.True(t, kind.Has(hitl.VerbDismiss), "a person can always close it")
	})
	t.Run("what nobody chose has words of its own", func(t *testing.T) {
		told := map[string]hitl.Outcome{}
		for _, o := range []hitl.Outcome{hitl.Denied, hitl.Dismissed, hitl.Expired, hitl.Cancelled, hitl.Orphaned} {
			text := hitl.AgentText(&r, &hitl.Content{Outcome: o})
			require.NotEmpty(t, text, o)
			require.Empty(t, told[text], "%s reads like another", o)
			told[text] = o
			require.True(t, kind.Fits(&hitl.Content{Outcome: o}), o)
		}
		require.NotEqual(t, kind.ExpiredText(time.Minute), kind.WithdrawnText)
	})
}

// literal is a text as JSON has it, without its quotes.
func literal(t *testing.T, s string) string {
	t.Helper()
	raw, err := hitl.Marshal(s)
	require.NoError(t, err)
	return string(raw[1 : len(raw)-1])
}

// leaves are the texts and numbers of a JSON value as they are shown.
func leaves(t *testing.T, raw json.RawMessage) (out []string) {
	t.Helper()
	if len(raw) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v))
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		case json.Number:
			out = append(out, v.String())
		case string:
			text, _ := hitl.Visible(v)
			out = append(out, text)
		}
	}
	walk(v)
	return out
}
