package hitl

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of a list that is too long the faults of its members are not looked for: a request of
// the largest size has hundreds of thousands of them, and took seconds to refuse.
func TestOfTooManyNotEachIsChecked_B56_invariant11(t *testing.T) {
	t.Parallel()
	many := func(one string) string { return strings.Repeat(one+",", 100_000) + one }
	for field, raw := range map[string]string{
		"options":              `"kind":"approval","options":[` + many(`{}`) + `]`,
		"questions":            `"kind":"question","questions":[` + many(`{}`) + `]`,
		"questions[0].options": `"kind":"question","questions":[{"question":"q","options":[` + many(`{}`) + `]}]`,
	} {
		_, err := ParseRequest([]byte(`{"v":1,` + raw + `}`))
		var bad *InvalidError
		require.True(t, errors.As(err, &bad), "%v", err)
		require.Condition(t, func() bool {
			for _, f := range bad.Fields {
				if f.Field == field && strings.HasPrefix(f.Problem, "must be ") {
					return true
				}
			}
			return false
		}, "%s: %v", field, bad.Fields)
		if last := bad.Fields[len(bad.Fields)-1]; last.Field == "..." {
			n := 0
			_, err := fmt.Sscanf(last.Problem, "and %d problems more", &n)
			require.NoError(t, err)
			require.Less(t, n, 300, field)
		}
	}
}
