package protocol

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The golden files hold what each captured line means, one event a line.
func TestDecodeGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			t.Parallel()
			in, err := os.ReadFile(f)
			require.NoError(t, err)
			var got strings.Builder
			d := NewDecoder()
			for i, line := range bytes.Split(bytes.TrimSpace(in), []byte("\n")) {
				out, err := d.Decode(line)
				require.NoError(t, err, "line %d", i+1)
				for _, e := range out.Events {
					fmt.Fprintf(&got, "%d %T %s\n", i+1, e, golden(t, e))
				}
				if out.Reply != nil {
					fmt.Fprintf(&got, "%d reply %s %s pending=%d\n", i+1, out.Reply.RequestID, out.Reply.Subtype, len(out.Reply.Pending))
				}
				if out.Refuse != nil {
					fmt.Fprintf(&got, "%d refuse %s: %s\n", i+1, out.Refuse.RequestID, out.Refuse.Message)
				}
			}
			name := strings.TrimSuffix(f, ".jsonl") + ".golden"
			if *update {
				require.NoError(t, os.WriteFile(name, []byte(got.String()), 0o600))
			}
			want, err := os.ReadFile(name)
			require.NoError(t, err)
			require.Equal(t, string(want), got.String())
			require.Empty(t, d.begun, "every call that began has ended")
		})
	}
}

// golden leaves out the whole raw lines, which are the input file.
func golden(t *testing.T, e Event) string {
	t.Helper()
	switch v := e.(type) {
	case Ask:
		v.Raw = nil
		e = v
	case Elicitation:
		v.Raw = nil
		e = v
	case TurnEnded:
		v.Raw = nil
		e = v
	}
	b, err := json.Marshal(e)
	require.NoError(t, err)
	return string(b)
}

// Whatever a line holds, the decoder neither panics nor invents: an ask always
// names a tool and repeats an input that stands in the line.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.jsonl")
	require.NoError(f, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(f, err)
		for _, line := range bytes.Split(bytes.TrimSpace(b), []byte("\n")) {
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		d := NewDecoder()
		for range 2 { // the second time with state left by the first
			before := bytes.Clone(line)
			out, err := d.Decode(line)
			require.Equal(t, before, line)
			if err != nil {
				require.Empty(t, out.Events)
				continue
			}
			for _, e := range out.Events {
				a, ok := e.(Ask)
				if !ok {
					continue
				}
				require.NotEmpty(t, a.RequestID)
				require.NotEmpty(t, a.ToolName)
				require.True(t, json.Valid(a.Input))
				require.True(t, bytes.Contains(line, a.Input))
				require.Equal(t, line, []byte(a.Raw))
			}
			if out.Refuse != nil {
				require.True(t, json.Valid(RefusalLine(out.Refuse)))
			}
		}
	})
}

func TestDecodedAsksDoNotShareTheLine(t *testing.T) {
	t.Parallel()
	line := []byte(`{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}`)
	out, err := NewDecoder().Decode(line)
	require.NoError(t, err)
	for i := range line {
		line[i] = 'x'
	}
	a := out.Events[0].(Ask)
	require.Equal(t, `{"command":"ls"}`, string(a.Input))
	require.Contains(t, string(a.Raw), "can_use_tool")
}
