package ticket

import (
	"strings"
	"unicode/utf8"

	"github.com/banksman/banksman/pkg/wire"
)

// text is all that a card shows of what is asked, for a message with a button beneath
// it. It is empty where that is long, has two sides, is what a file is to hold, or hides
// something.
func text(b *wire.Body) string {
	var lines []string
	for _, block := range b.Blocks {
		if block.Form == "diff" || block.Form == "content" || block.Hidden > 0 || block.Pushed {
			return ""
		}
		line := block.Text
		if block.Form != "command" {
			line = block.Label + ": " + line
		}
		lines = append(lines, line)
	}
	if b.Cwd != "" {
		lines = append(lines, "In: "+b.Cwd)
	}
	out := strings.Join(lines, "\n")
	if utf8.RuneCountInString(out) > wire.MaxTicketText || len(b.Options) > 0 || len(b.Blocks) == 0 {
		return ""
	}
	return out
}
