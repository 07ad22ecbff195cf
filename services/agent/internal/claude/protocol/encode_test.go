package protocol

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever ends a line for some reader of lines is gone; every token stays.
func TestLinesHoldNoLineBreaks(t *testing.T) {
	t.Parallel()
	line, err := AllowLine("r\n1", json.RawMessage("\n{\"a\":\r\n \"x\u2028y\u2029z\\n\", \"n\": 9007199254740993}\n"), json.RawMessage("[\n]"))
	require.NoError(t, err)
	require.Equal(t, `{"type":"control_response","response":{"subtype":"success","request_id":"r\n1","response":{"behavior":"allow","updatedInput":{"a":   "x\u2028y\u2029z\n", "n": 9007199254740993},"updatedPermissions":[ ]}}}`, string(line))

	line, err = DenyLine("r1", "no\n<really>\u2028", true)
	require.NoError(t, err)
	require.Equal(t, `{"type":"control_response","response":{"subtype":"success","request_id":"r1","response":{"behavior":"deny","message":"no\n<really>\u2028","interrupt":true}}}`, string(line))
}
