package crowd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func TestCheckFindsWhoWasToldWrong(t *testing.T) {
	t.Parallel()
	at := time.Now()
	decision := func(change func(*hitl.Decision)) *hitl.Decision {
		d := &hitl.Decision{
			DecisionID: "d", Content: hitl.Content{Outcome: hitl.Denied}, DecidedAt: at,
			Principal: hitl.Principal{Kind: "person", ID: personID(1)},
		}
		change(d)
		return d
	}
	same := func(*hitl.Decision) {}
	told := func(s hitl.Status, change func(*hitl.Decision)) Verdict {
		return Verdict{Receipt: hitl.Receipt{Status: s, Decision: decision(change)}}
	}
	good := func() []Verdict {
		return []Verdict{told(hitl.AlreadyDecided, same), told(hitl.Accepted, same), told(hitl.AlreadyDecided, same)}
	}
	require.NoError(t, Check(good(), decision(same)))
	again := good()
	again[1].Status = hitl.Duplicate
	require.NoError(t, Check(again, decision(same)), "accepted, but the receipt came at the second try")
	for name, change := range map[string]func(v []Verdict){
		"nobody was accepted": func(v []Verdict) { v[1].Status = hitl.AlreadyDecided },
		"two were accepted":   func(v []Verdict) { v[0].Status = hitl.Accepted },
		"another was accepted": func(v []Verdict) {
			v[0].Status, v[1].Status = hitl.Accepted, hitl.AlreadyDecided
		},
		"no receipt":       func(v []Verdict) { v[0].Err = errors.New("gone") },
		"another status":   func(v []Verdict) { v[0].Status = hitl.NotFound },
		"no decision":      func(v []Verdict) { v[0].Decision = nil },
		"another decision": func(v []Verdict) { v[0].Decision.DecisionID = "e" },
		"another person":   func(v []Verdict) { v[0].Decision.Principal.ID = personID(2) },
		"another outcome":  func(v []Verdict) { v[2].Decision.Outcome = hitl.Allowed },
		"another time":     func(v []Verdict) { v[2].Decision.DecidedAt = at.Add(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			v := good()
			change(v)
			require.Error(t, Check(v, decision(same)))
		})
	}
}

type voiceFunc func() hitl.Receipt

func (f voiceFunc) say(context.Context, hitl.Response) (hitl.Receipt, error) { return f(), nil }
func (f voiceFunc) leave()                                                   {}

func TestWhoIsToldNothingAsksAgain(t *testing.T) {
	t.Parallel()
	n := 0
	rec, err := untilTold(t.Context(), voiceFunc(func() hitl.Receipt {
		if n++; n < 3 {
			return hitl.Receipt{Status: hitl.Unavailable}
		}
		return hitl.Receipt{Status: hitl.Duplicate}
	}), hitl.Response{})
	require.NoError(t, err)
	require.Equal(t, hitl.Duplicate, rec.Status)
	ended, end := context.WithCancel(t.Context())
	end()
	rec, _ = untilTold(ended, voiceFunc(func() hitl.Receipt { return hitl.Receipt{Status: hitl.Unavailable} }), hitl.Response{})
	require.Equal(t, hitl.Unavailable, rec.Status)
}
