package compose

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exact is an image by its whole version, or by its content.
var exact = regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+\.\d+(-[a-z0-9.-]+)?(@sha256:[0-9a-f]{64})?$`)

// floats says what of a Dockerfile becomes another thing by itself when it is built
// again. Debian's packages of the agent's image are meant to: they are how it gets
// security fixes.
func floats(dockerfile string) []string {
	var bad []string
	args, stages := map[string]string{}, map[string]bool{"scratch": true}
	text := strings.ReplaceAll(dockerfile, "\\\n", " ")
	for line := range strings.Lines(text) {
		word := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "# syntax="):
			bad = append(bad, line)
		case len(word) == 0 || strings.HasPrefix(word[0], "#"):
		case word[0] == "ARG":
			name, value, _ := strings.Cut(word[1], "=")
			args[name] = value
		case word[0] == "FROM":
			image := os.Expand(word[1], func(name string) string { return args[name] })
			if !stages[image] && !exact.MatchString(image) {
				bad = append(bad, line)
			}
			if len(word) == 4 {
				stages[word[3]] = true
			}
		case word[0] == "COPY" && strings.HasPrefix(word[1], "--from="):
			if image := strings.TrimPrefix(word[1], "--from="); !stages[image] && !exact.MatchString(image) {
				bad = append(bad, line)
			}
		case word[0] == "ADD", fetches.MatchString(line):
			bad = append(bad, line)
		}
	}
	return bad
}

// fetches matches what brings something that no lock file names.
var fetches = regexp.MustCompile(`\b(curl|wget|git clone|npm (install|i|update|exec)|npx|go (install|get)|pip3? install|apt(-get)? (upgrade|dist-upgrade))\b|@latest\b`)

func TestImagesAreBuiltFromExactVersions(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(root, "deploy/Dockerfile"))
	require.NoError(t, err)
	require.Empty(t, floats(string(raw)))
	require.Contains(t, string(raw), "GOTOOLCHAIN=local", "no other Go than the image's")
	for _, more := range []string{"deploy/compose.cluster.yml", "deploy/compose.observe.yml"} {
		for _, s := range project(t, nil, "docker-compose.yml", more).Services {
			if !strings.HasPrefix(s.Image, "banksman/") { // those are built here
				require.Regexp(t, exact, s.Image, s.Name)
			}
		}
	}
}

func TestFloatingReferencesAreSeen(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"# syntax=docker/dockerfile:1\n", "FROM golang\n", "FROM golang:latest\n", "FROM golang:1.26\n", "ARG V=22\nFROM node:${V}-slim\n", "ARG I\nFROM $I\n",
		"FROM node:22.1.0-slim@sha256:abc\n", "FROM scratch\nCOPY --from=caddy:2 /usr/bin/caddy /\n", "FROM scratch\nADD https://example.com/x /\n",
		"FROM scratch\nRUN apt-get update && \\\n    curl -O https://example.com\n", "FROM scratch\nRUN npm install\n", "FROM scratch\nRUN go install example.com/x@latest\n",
	} {
		require.Len(t, floats(bad), 1, bad)
	}
	for _, good := range []string{
		"FROM golang:1.26.8-bookworm AS build\nFROM build\n", "FROM a/b:v2.53.0@sha256:" + strings.Repeat("0a", 32) + "\n",
		"FROM scratch AS base\nFROM base\nCOPY --from=base /x /\nRUN npm ci --no-audit\n", "# go get is not what this does\nFROM scratch\n",
	} {
		require.Empty(t, floats(good), good)
	}
}
