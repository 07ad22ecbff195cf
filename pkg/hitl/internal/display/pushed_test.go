package display

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPushedIsWhatItsRuleSays_B54(t *testing.T) {
	t.Parallel()
	rule := regexp.MustCompile(`[ \t]{20,}\S|\n([ \t]*\n){4,}[ \t]*\S`)
	rnd := rand.New(rand.NewPCG(1, 2))
	hits := 0
	for range 20_000 {
		var b strings.Builder
		for range rnd.IntN(8) {
			piece := []string{"\n", "\n\n", " ", "\t", strings.Repeat(" ", 9), strings.Repeat(" ", 20), "x", "\r", "\f", "é"}[rnd.IntN(10)]
			b.WriteString(piece)
		}
		s := b.String()
		want := rule.MatchString(s)
		if want {
			hits++
		}
		require.Equal(t, want, Pushed(s), "%q", s)
	}
	require.Greater(t, hits, 500)
}
