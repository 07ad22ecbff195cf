package subject_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/subject"
)

func TestParseRef(t *testing.T) {
	t.Parallel()
	want := subject.NewRef("default", "agents", "0b0a")
	got, ok := subject.ParseRef(want.String())
	require.True(t, ok)
	require.Equal(t, want, got)
	for _, bad := range []string{"", "a.b", "a.b.c.d", "a..c", "a.b.*", "a.b." + strings.Repeat("c", subject.MaxToken+1), "a.b.ä"} {
		_, ok := subject.ParseRef(bad)
		require.False(t, ok, bad)
	}
}
