package main

import (
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/contract"
)

// The committed documents are what the types give: the gateway cannot drift
// from what it publishes.
func TestTheDocumentsAreCurrent(t *testing.T) {
	t.Parallel()
	files, err := documents(filepath.Join("..", sources))
	require.NoError(t, err)
	require.Equal(t, string(files["openapi.json"]), string(contract.OpenAPI))
	require.Equal(t, string(files["frames.schema.json"]), string(contract.Frames))
}

// What the gateway decodes of a client's frame is what some frame has.
func TestEveryFieldOfAClientBelongsToAFrame(t *testing.T) {
	t.Parallel()
	// tool_call_id names an interaction over HTTP only.
	named := map[string]bool{"type": true, "tool_call_id": true}
	for _, f := range clientFrames {
		for _, field := range slices.Concat(f.required, f.optional) {
			named[field] = true
		}
	}
	var have []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[wire.Client]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			have = append(have, name)
		}
	}
	require.ElementsMatch(t, have, slices.Collect(maps.Keys(named)))
}

func TestCommentsSpeakOfFieldsByTheirNamesInJSON(t *testing.T) {
	t.Parallel()
	docs, err := readDocs(filepath.Join("..", sources, "wire"))
	require.NoError(t, err)
	require.Contains(t, docs["wire.ProcessState.SessionKey"], "session_key is unique")
	require.Contains(t, docs["wire.Hello.Runtimes"], "what the reachable workers can start")
}
