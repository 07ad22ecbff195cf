// Package labels reads a text that may be several labels in one.
package labels

import (
	"strings"

	"github.com/banksman/banksman/pkg/hitl/internal/strictjson"
)

// Split returns the ways to read text as labels joined by ", ", at most limit of
// them. Each label is used once and may be written as a JSON string.
func Split(text string, labels []string, limit int) [][]string {
	return (&splitter{labels: labels}).split(text, 0, limit)
}

// splitter remembers what led nowhere: labels that are parts of each other can be
// tried in very many orders.
type splitter struct {
	labels []string
	dead   map[state]bool
}

type state struct {
	left int    // bytes still to read
	used uint64 // a bit per label
}

func (p *splitter) split(s string, used uint64, limit int) [][]string {
	at := state{len(s), used}
	if p.dead[at] {
		return nil
	}
	var out [][]string
	for i := range min(len(p.labels), 64) {
		label := p.labels[i]
		if used&(1<<i) != 0 {
			continue
		}
		forms := []string{label}
		if quoted, err := strictjson.Marshal(label); err == nil {
			forms = append(forms, string(quoted))
		}
		for _, form := range forms {
			rest, ok := strings.CutPrefix(s, form)
			if !ok {
				continue
			}
			if rest == "" {
				out = append(out, []string{label})
			} else if rest, ok := strings.CutPrefix(rest, ", "); ok {
				for _, tail := range p.split(rest, used|1<<i, limit-len(out)) {
					out = append(out, append([]string{label}, tail...))
				}
			}
			if len(out) >= limit {
				return out
			}
		}
	}
	if len(out) == 0 {
		if p.dead == nil {
			p.dead = map[state]bool{}
		}
		p.dead[at] = true
	}
	return out
}
