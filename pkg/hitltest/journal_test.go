package hitltest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitltest"
)

func TestMemoryJournal(t *testing.T) {
	t.Parallel()
	hitltest.JournalSuite(t, func(testing.TB) hitltest.Env {
		j := hitltest.NewMemoryJournal()
		return hitltest.Env{
			Journal: j, Another: j,
			Publish: func(t testing.TB, subj string, header map[string][]string, data []byte) {
				t.Helper()
				_, err := j.Publish(subj, header, data)
				require.NoError(t, err)
			},
		}
	})
}
