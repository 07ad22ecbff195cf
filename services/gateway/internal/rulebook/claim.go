package rulebook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/permit"
	"github.com/banksman/banksman/services/gateway/internal/rule"
)

// channel is what decisions of rules are recorded with.
const channel = "rule"

// returnLimit bounds the giving back of a use, whatever became of its request.
const returnLimit = 5 * time.Second

var _ api.Rules = (*Book)(nil)

// claimTries bounds how often a request is held against rules that change meanwhile.
const claimTries = 5

// Claim implements api.Rules. A rule that denies comes first. A rule counts only as
// far as its maker may decide the request now.
func (b *Book) Claim(ctx context.Context, a *api.Asked) (claim *api.Claim, err error) {
	for range claimTries {
		if claim, err = b.pick(ctx, a); !errors.Is(err, errMoved) {
			return claim, err
		}
	}
	return nil, err
}

// pick is Claim with the rules as they are at one moment.
func (b *Book) pick(ctx context.Context, a *api.Asked) (*api.Claim, error) {
	// Requests of whom no rule is about cost nothing here.
	list, err := b.usable(ctx, a.Request.Tenant, a.Request.Owner)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	c := rule.Read(a.Request, a.Policy.Risk)
	if c == nil {
		return nil, nil
	}
	able := able{book: b, ask: a}
	var allow []*wire.Rule
	for _, r := range list {
		switch r.Effect {
		case wire.RuleDeny:
			if !rule.Denies(&r.Match, c) {
				continue
			}
			if _, ok, err := able.attempt(ctx, r); err != nil {
				return nil, err
			} else if ok {
				claim, err := b.claim(ctx, &able, r)
				if !errors.Is(err, errOver) {
					return claim, err
				}
			}
		case wire.RuleAllow:
			allow = append(allow, r)
		}
	}
	for {
		picked := rule.Allowing(allow, c)
		if picked == nil {
			return nil, nil
		}
		// Whoever cannot is left out, and the others are asked again.
		bad := -1
		for i, r := range picked {
			_, ok, err := able.attempt(ctx, r)
			if err != nil {
				return nil, err
			}
			if !ok {
				bad = i
				break
			}
		}
		if bad < 0 {
			claim, err := b.claim(ctx, &able, picked...)
			if !errors.Is(err, errOver) {
				return claim, err
			}
			bad = able.over
		}
		allow = without(allow, picked[bad])
	}
}

func without(list []*wire.Rule, r *wire.Rule) []*wire.Rule {
	out := make([]*wire.Rule, 0, len(list))
	for _, o := range list {
		if o != r {
			out = append(out, o)
		}
	}
	return out
}

// able knows what the makers of rules may decide about one request.
type able struct {
	book *Book
	ask  *api.Asked
	over int // which of the rules of the last claim was not in force any more
}

// attempt is what a rule would say of a request, false where its maker may not.
func (v *able) attempt(ctx context.Context, r *wire.Rule) (api.Attempt, bool, error) {
	a := api.Attempt{
		Response: hitl.Response{RequestID: v.ask.Ref.String(), Digest: v.ask.Digest, Decision: r.Effect},
		// What it matches is for those who may know what was asked: the comment says it.
		Principal: hitl.Principal{Kind: "rule", ID: r.ID, Name: "a rule of " + r.Maker.Name},
		Channel:   channel,
		AskedFor:  api.Owner(r.Maker), // nobody decides what they ask themselves
		Rule:      r.ID,
	}
	a.Comment = fmt.Sprintf("Rule %s, made by %s (%s): %s", r.ID, r.Maker.Name, r.Maker.ID, r.Text)
	if r.Effect == wire.RuleDeny {
		a.Message = fmt.Sprintf("Denied by a rule that %s made: %s", r.Maker.Name, r.Title)
	}
	rights, err := v.book.o.Rights(ctx, r.Maker.ID)
	if err != nil {
		return a, false, err
	}
	a.Rights = rights
	_, refused := permit.Role(&a, v.ask.Request)
	return a, refused == nil, nil
}

// claim counts a use of each rule, and of none where one is not in force any more.
func (b *Book) claim(ctx context.Context, v *able, rules ...*wire.Rule) (*api.Claim, error) {
	a, ok, err := v.attempt(ctx, rules[0])
	if err != nil || !ok {
		return nil, err
	}
	ids := make([]string, len(rules))
	back := func(ctx context.Context, n int) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnLimit)
		defer cancel()
		for _, id := range ids[:n] {
			b.unuse(ctx, id)
		}
	}
	for i, r := range rules {
		ids[i] = r.ID
		if err := b.use(ctx, r, v.ask.RequestedAt); err != nil {
			if errors.Is(err, ErrUnknown) {
				err = errOver
			}
			v.over = i
			back(ctx, i)
			return nil, err
		}
	}
	a.Rule = strings.Join(ids, ",")
	return &api.Claim{Attempt: a, Return: func(ctx context.Context) { back(ctx, len(ids)) }}, nil
}
