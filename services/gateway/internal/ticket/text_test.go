package ticket

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// A button stands only beneath what a few lines say: never beneath a change of a file
// or what a file is to hold, nor where something is hidden.
func TestWhatAButtonStandsBeneath_B57(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		block hitl.Block
		want  string
	}{
		"a command":       {hitl.Block{Label: "Command", Form: "command", Text: "make test"}, "make test"},
		"another field":   {hitl.Block{Label: "Path", Form: "text", Text: "/srv"}, "Path: /srv"},
		"a change":        {hitl.Block{Label: "Change", Form: "diff", Text: "a"}, ""},
		"a file":          {hitl.Block{Label: "Content", Form: "content", Text: "a"}, ""},
		"a hidden tail":   {hitl.Block{Label: "Command", Form: "command", Text: "make test", Hidden: 1}, ""},
		"out of the view": {hitl.Block{Label: "Command", Form: "command", Text: "make test", Pushed: true}, ""},
	} {
		require.Equal(t, c.want, text(&wire.Body{Blocks: []hitl.Block{c.block}}), name)
	}
}
