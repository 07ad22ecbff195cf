package engine

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/shown"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
)

// The record says what the person read at the top of the card, not only what the
// agent wrote; and a page that showed anything else decides nothing.
func TestTheRecordSaysWhatWasShown_invariant5(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain, _ := w.gateway()
	// A gateway that judges in another way: of another version, say.
	strict, _ := w.gateway(func(o *Options) { o.Critical = []string{"build"} })
	nc := w.connect()
	r := request("k", func(r *hitl.Request) {
		r.Tool.Input = json.RawMessage(`{"command":"bash -c 'make && rm -rf build'"}`)
	})
	raw := w.ask(nc, r)
	pending(t, plain, r.ID)
	pending(t, strict, r.ID)
	see := func(e *Engine) *wire.Interaction {
		ix, err := e.Interaction(t.Context(), r.ID)
		require.NoError(t, err)
		return ix
	}
	page := see(plain)
	require.Len(t, page.Body.Parts, 3)
	require.Contains(t, page.Headline, "delete build for good")
	attempt := func(named string) api.Attempt {
		return answer(r, raw, "ada", func(a *api.Attempt) { allow(a); a.Shown = named })
	}
	for name, digest := range map[string]string{
		"of something else": shown.Digest(request("other"), nil), "of the texts alone": shown.Digest(r, nil), "of the bytes": hitl.Digest(raw), "of nothing": "x",
	} {
		rec := plain.Decide(t.Context(), attempt(digest))
		require.Equal(t, hitl.DigestMismatch, rec.Status, name)
		require.Nil(t, rec.Decision)
	}
	pending(t, plain, r.ID)

	rec := plain.Decide(t.Context(), attempt(page.Body.Shown))
	require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
	require.Nil(t, rec.Decision.Card, "a receipt stands beside the card")
	stored, err := w.journal(nc).Decision(t.Context(), ref(r))
	require.NoError(t, err)
	c := stored.Card
	require.NotNil(t, c)
	require.True(t, c.Named)
	require.Equal(t, page.Headline, c.Headline)
	require.Equal(t, page.Body.Parts, c.Parts)
	require.Equal(t, page.Risk, c.Risk)
	require.Equal(t, page.RiskReason, c.RiskReason)
	require.Equal(t, *page.ExpiresAt, *c.ExpiresAt)
	require.Equal(t, page.Body.Shown, stored.Shown)
	require.Equal(t, stored.Shown, shown.Digest(r, c), "made again from the record alone")

	// Afterwards every gateway shows what was shown then.
	pending(t, strict)
	after := see(strict)
	require.Equal(t, page.Headline, after.Headline)
	require.Equal(t, page.Risk, after.Risk)
	require.Equal(t, page.RiskReason, after.RiskReason)
	require.Equal(t, page.Body.Parts, after.Body.Parts)
	require.Equal(t, page.Body.Shown, after.Body.Shown)
}

// What one gateway says of a request another one may put in other words: then one
// looks at it again there. Two worlds, because gateways of one take the words of
// whoever was first.
func TestWhatAnotherGatewaySaidDecidesNothing(t *testing.T) {
	t.Parallel()
	r := request("k")
	see := func(change func(*Options)) (e *Engine, raw []byte, said string) {
		w := newWorld(t)
		e, _ = w.gateway(change)
		raw = w.ask(w.connect(), r)
		pending(t, e, r.ID)
		ix, err := e.Interaction(t.Context(), r.ID)
		require.NoError(t, err)
		return e, raw, ix.Body.Shown
	}
	e, raw, own := see(func(*Options) {})
	_, _, other := see(func(o *Options) { o.Critical = []string{"make"} })
	require.NotEqual(t, own, other)
	decide := func(named string) hitl.Status {
		return e.Decide(t.Context(), answer(r, raw, "ada", func(at *api.Attempt) { deny(at); at.Shown = named })).Status
	}
	require.Equal(t, hitl.DigestMismatch, decide(other))
	pending(t, e, r.ID)
	require.Equal(t, hitl.Accepted, decide(own))
}

// Who names nothing, a rule or a program, decides all the same, and the record
// says that.
func TestTheRecordSaysWhoDidNotLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	r := request("k")
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", deny)).Status)
	stored, err := w.journal(nc).Decision(t.Context(), ref(r))
	require.NoError(t, err)
	require.False(t, stored.Card.Named)
	require.Equal(t, stored.Shown, shown.Digest(r, stored.Card))
}

// What a person makes of an input is judged too, and the record says how.
func TestAnEditIsJudged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	for name, c := range map[string]struct{ input, want string }{
		"worse": {`{"command":"rm -rf build"}`, "high"}, "not worse": {`{"command":"ls"}`, ""}, "the same": {`{"command":"make test"}`, ""},
	} {
		r := request(name)
		raw := w.ask(w.connect(), r)
		pending(t, e, r.ID)
		rec := e.Decide(t.Context(), answer(r, raw, "ada", func(a *api.Attempt) { allow(a); a.UpdatedInput = json.RawMessage(c.input) }))
		require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
		require.Equal(t, c.want, rec.Decision.Policy.Edited, name)
		require.Equal(t, "medium", rec.Decision.Policy.Risk, name)
		pending(t, e)
	}
}

// Also of what nobody decided the record says what stood on the card, and every
// gateway shows that from then on.
func TestTheRecordSaysWhatWasShownOfWhatNobodyDecided_B33(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain, _ := w.gateway()
	strict, _ := w.gateway(func(o *Options) { o.Critical = []string{"build"} })
	nc := w.connect()
	for name, end := range map[string]func(r *hitl.Request){
		"expired":   func(*hitl.Request) {},
		"cancelled": func(r *hitl.Request) { w.store(nc, subject.Withdraw(ref(r)), []byte(`{"v":1}`)) },
	} {
		r := request(name, func(r *hitl.Request) {
			r.Tool.Input = json.RawMessage(`{"command":"bash -c 'make && rm -rf build'"}`)
			if name == "expired" {
				expiring(3 * time.Second)(r)
			}
		})
		w.ask(nc, r)
		pending(t, plain, r.ID)
		pending(t, strict, r.ID)
		page, err := plain.Interaction(t.Context(), r.ID)
		require.NoError(t, err)
		end(r)
		pending(t, plain)
		pending(t, strict)
		stored, err := w.journal(nc).Decision(t.Context(), ref(r))
		require.NoError(t, err)
		require.NotNil(t, stored.Card, name)
		require.Equal(t, page.Headline, stored.Card.Headline)
		require.False(t, stored.Card.Named)
		require.Empty(t, stored.Shown, "nobody says that it was looked at")
		for _, e := range []*Engine{plain, strict} {
			after, err := e.Interaction(t.Context(), ref(r).String())
			require.NoError(t, err)
			require.Equal(t, page.Headline, after.Headline)
			require.Equal(t, page.Risk, after.Risk)
			require.Equal(t, page.Body.Parts, after.Body.Parts)
		}
	}
}
