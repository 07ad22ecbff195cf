package door

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/history"
)

// defaultPage is how many decisions a search returns that names no limit.
const defaultPage = 50

// search answers for the record of decisions.
func (d *Door) search(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	q, inv := searched(r.URL.Query())
	if inv != nil {
		failInvalid(w, inv)
		return
	}
	page, err := d.History.Search(r.Context(), sess.Rights, q)
	if inv := (*hitl.InvalidError)(nil); errors.As(err, &inv) {
		failInvalid(w, inv)
		return
	}
	if err != nil {
		d.engineError(w, err, "decision")
		return
	}
	reply(w, http.StatusOK, page)
}

func searched(v url.Values) (history.Query, *hitl.InvalidError) {
	q := history.Query{
		Text: v.Get("q"), Kind: v.Get("kind"), Tool: v.Get("tool"), Project: v.Get("project"), Agent: v.Get("agent"),
		Who: v.Get("who"), Session: v.Get("session"), Rule: v.Get("rule"), Before: v.Get("before"), Limit: defaultPage,
	}
	for _, o := range v["outcome"] {
		q.Outcomes = append(q.Outcomes, hitl.Outcome(o))
	}
	for name, at := range map[string]*time.Time{"from": &q.From, "until": &q.Until} {
		text := v.Get(name)
		if text == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return q, hitl.Invalid(name, "must be a time such as 2026-03-04T00:00:00Z")
		}
		*at = t
	}
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return q, hitl.Invalid("limit", "must be 1 to %d", history.MaxLimit)
		}
		q.Limit = n
	}
	return q, nil
}
