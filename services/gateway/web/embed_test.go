package web

import (
	"io/fs"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page must run under a policy without unsafe-inline: nothing inline in it,
// and each file it names is there.
func TestIndexHasNothingInlineAndAllFiles(t *testing.T) {
	t.Parallel()
	page, err := fs.ReadFile(FS(), "index.html")
	require.NoError(t, err)
	require.NotRegexp(t, `<script[^>]*>[^<]`, string(page))
	require.NotRegexp(t, `<style|\sstyle=|\son[a-z]+=`, string(page))
	refs := regexp.MustCompile(`(?:src|href)="/([^"]+)"`).FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(refs), 4)
	for _, ref := range refs {
		_, err := fs.Stat(FS(), ref[1])
		require.NoError(t, err)
	}
}
