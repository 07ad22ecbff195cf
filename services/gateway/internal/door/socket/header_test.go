package socket

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheHeaderOfEveryLength(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]string{
		0: "8100", 125: "817d", 126: "817e007e", 1<<16 - 1: "817effff", 1 << 16: "817f0000000000010000", 1 << 32: "817f0000000100000000",
	} {
		var b bytes.Buffer
		writeHeader(&b, size)
		require.Equal(t, want, hex.EncodeToString(b.Bytes()), size)
	}
}
