// Package shown says what people are shown of a request, as one digest.
package shown

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/banksman/banksman/pkg/hitl"
)

// Version is that of the cards that are made now, and of the digest over them.
const Version = 2

type question struct {
	Question hitl.Question `json:"question"`
	Required bool          `json:"required"`
	Other    bool          `json:"other"`
}

// texts are the request's own, as they are displayed.
type texts struct {
	Headline  string             `json:"headline"`
	Title     string             `json:"title"`
	Message   string             `json:"message"`
	Reason    string             `json:"reason"`
	Cwd       string             `json:"cwd"`
	Blocks    []hitl.Block       `json:"blocks"`
	Questions []question         `json:"questions"`
	Options   []hitl.AgentOption `json:"options"`
}

// Digest is the SHA-256 of what people are shown of a request before they decide:
// what the gateway says of it, which is c, and every text as it is displayed,
// invisible characters as tokens. Where the digest of the bytes says what was
// decided on, this says what it looked like; a later version that shows the same
// request in another way gives another one. It is empty where nothing can be
// shown, and for a card of a version that this one does not know.
//
// Without a card it is what gateways recorded that kept none: of the request's
// own texts alone.
func Digest(r *hitl.Request, c *hitl.Card) string {
	own := read(r)
	if c == nil {
		return sum(own)
	}
	if c.V != Version {
		return ""
	}
	said := *c
	said.Named = false // it is about the answer, and was shown to nobody
	schema, _ := hitl.DisplayJSON(r.Schema)
	return sum(struct {
		Card    hitl.Card `json:"card"`
		Texts   texts     `json:"texts"`
		Kind    string    `json:"kind"`
		Agent   string    `json:"agent"`
		Owner   string    `json:"owner"`
		Session string    `json:"session"`
		Project string    `json:"project"`
		Schema  string    `json:"schema"`
	}{said, own, r.Kind, visible(r.AgentName), visible(r.Owner), visible(r.SessionID), visible(r.ProjectID), schema})
}

func sum(v any) string {
	raw, err := hitl.Marshal(v)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func visible(s string) string {
	s, _ = hitl.Visible(s)
	return s
}

func read(r *hitl.Request) texts {
	all := texts{
		Headline: hitl.Headline(r), Title: visible(r.Title), Message: visible(r.Message), Reason: visible(r.Reason), Blocks: hitl.View(r),
	}
	if r.Tool != nil {
		all.Cwd = visible(r.Tool.Cwd)
	}
	for _, o := range r.Options {
		o.Name = visible(o.Name)
		all.Options = append(all.Options, o)
	}
	for i := range r.Questions {
		q := r.Questions[i]
		out := question{Required: q.MustAnswer(), Other: q.Other()}
		q.Header, q.Question = visible(q.Header), visible(q.Question)
		options := make([]hitl.Option, len(q.Options))
		for j, o := range q.Options {
			options[j] = hitl.Option{
				Value: o.OptionValue(), Label: visible(o.Label), Description: visible(o.Description), Preview: visible(o.Preview),
			}
		}
		q.Options = options
		out.Question = q
		all.Questions = append(all.Questions, out)
	}
	return all
}
