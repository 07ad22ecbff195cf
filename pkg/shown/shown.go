// Package shown says what people are shown of a request, as one digest.
package shown

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/banksman/banksman/pkg/hitl"
)

// Digest is the SHA-256 of what people are shown of a request before they
// decide: every text as it is displayed, invisible characters as tokens. Where
// the digest of the bytes says what was decided on, this says what it looked
// like; a later version that shows the same request in another way gives another
// one. It is empty where nothing can be shown.
func Digest(r *hitl.Request) string {
	type question struct {
		Question hitl.Question `json:"question"`
		Required bool          `json:"required"`
		Other    bool          `json:"other"`
	}
	visible := func(s string) string {
		s, _ = hitl.Visible(s)
		return s
	}
	all := struct {
		Headline  string             `json:"headline"`
		Title     string             `json:"title"`
		Message   string             `json:"message"`
		Reason    string             `json:"reason"`
		Cwd       string             `json:"cwd"`
		Blocks    []hitl.Block       `json:"blocks"`
		Questions []question         `json:"questions"`
		Options   []hitl.AgentOption `json:"options"`
	}{
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
	raw, err := hitl.Marshal(all)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
