package linkpage

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

func TestLettersFromRightToLeftTurnNothingAround_B54(t *testing.T) {
	t.Parallel()
	const line = "cp אבג 12 / דהו <b>/etc"
	const want = "cp <bdi>אבג</bdi> 12 / <bdi>דהו</bdi> &lt;b&gt;/etc"
	ix := &wire.Interaction{Summary: wire.Summary{Headline: line, Body: &wire.Body{
		Cwd: line, Blocks: []hitl.Block{{Label: "Command", Form: "command", Text: line}, {Label: "Change", Form: "diff", Old: line, New: line}},
		Parts: []wire.Part{{Text: line}},
	}}, State: "pending"}
	var out bytes.Buffer
	require.NoError(t, page.Execute(&out, view{Ix: ix}))
	for _, at := range []string{"<h1>", `<pre class="payload">`, `<pre class="payload old">`, `<pre class="payload new">`, "<li><code>", "In <code>"} {
		require.Contains(t, out.String(), at+want)
	}
}
