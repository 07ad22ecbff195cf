package door_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/gateway/internal/contract"
)

// What is published is what is served: no route more and none less.
func TestEveryRouteIsPublished(t *testing.T) {
	t.Parallel()
	c, err := published()
	require.NoError(t, err)
	served := slices.Sorted(slices.Values(newHouse(t).door.Patterns()))
	require.Equal(t, c.Routes(), served)
}

func TestTheContractIsServedToEverybody(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	nobody := func(r *http.Request) { r.Header.Del("Authorization") }
	for path, want := range map[string][]byte{"/api/openapi.json": contract.OpenAPI, "/api/frames.schema.json": contract.Frames} {
		status, raw, header := h.call(http.MethodGet, path, "", nobody)
		require.Equal(t, 200, status)
		require.Equal(t, "application/json", header.Get("Content-Type"))
		require.Equal(t, "public, no-cache", header.Get("Cache-Control"))
		require.Equal(t, string(want), string(raw))
		status, raw, _ = h.call(http.MethodGet, path, "", nobody, func(r *http.Request) { r.Header.Set("If-None-Match", header.Get("ETag")) })
		require.Equal(t, 304, status)
		require.Empty(t, raw)
		status, _, _ = h.call(http.MethodPost, path, "{}")
		require.Equal(t, 405, status)
	}
}

// The schema refuses what is no frame: a type that is unknown or missing, a
// field that is missing or of another type, and in what a gateway says also one
// that nobody documented.
func TestWhatIsNoFrameIsRefused(t *testing.T) {
	t.Parallel()
	c, err := published()
	require.NoError(t, err)
	const at = `"2026-11-28T00:00:00Z"`
	client := map[string]string{
		`{"type":"auth","token":"t"}`: "",
		`{"type":"auth"}`:             "token",
		`{"type":"auth","token":7}`:   "token",
		`{"type":"wish","token":"t"}`: "wish",
		`{"token":"t"}`:               "no type",
		`{"type":"hello"}`:            "no type hello",
		`{"type":"pong"}`:             "",
		`{"type":"pong","more":1}`:    "",
		`[{"type":"pong"}]`:           "no object",
		`{"type":"subscribe"}`:        "session_id",
		`{"type":"pending_request_response","session_id":"s","request_id":"r","digest":"d"}`:                                                 "request_type",
		`{"type":"pending_request_response","session_id":"s","request_id":"r","request_type":"t"}`:                                           "digest",
		`{"type":"pending_request_response","session_id":"s","request_id":"r","request_type":"t","digest":"d","decision":"yes"}`:             "decision",
		`{"type":"pending_request_response","session_id":"s","request_id":"r","request_type":"t","digest":"d","decision":"allow"}`:           "",
		`{"type":"pending_request_response","session_id":"s","request_id":"r","request_type":"t","digest":"d","answers":{"a":["b"]}}`:        "",
		`{"type":"pending_request_response","session_id":"s","request_id":"r","request_type":"t","digest":"d","answers":{"a":7}}`:            "answers",
		`{"type":"pending_request_response","session_id":"s","request_id":"r","request_type":"t","digest":"d","answers":[{"values":["b"]}]}`: "answers",
		`{"type":"start_session","runtime":"demo","attachments":[{"kind":"image","media_type":"image/png","data_b64":"AA=="}]}`:              "",
		`{"type":"start_session","runtime":"demo","attachments":[{"kind":"sound","media_type":"audio/wav","data_b64":"AA=="}]}`:              "attachments",
	}
	server := map[string]string{
		`{"type":"ping","server_time":` + at + `}`:   "",
		`[{"type":"ping","server_time":` + at + `}]`: "",
		`{"type":"ping"}`: "server_time",
		`{"type":"ping","server_time":` + at + `,"more":1}`: "more",
		`{"server_time":` + at + `}`:                        "no type",
		`{"type":"pong"}`:                                   "no type pong",
		`{"type":"receipt","status":"accepted"}`:            "",
		`{"type":"receipt","status":"fine"}`:                "fine",
		`{"type":"event","session_id":"s","session_key":"k","cursor":"c","events":[{"type":"text","at":` + at + `,"data":{"text":"x"}}]}`:      "",
		`{"type":"event","session_id":"s","session_key":"k","cursor":"c","events":[{"type":"wish","at":` + at + `,"data":{"text":"x"}}]}`:      "events",
		`{"type":"event","session_id":"s","session_key":"k","cursor":"c","events":[{"type":"text","at":` + at + `,"data":{"text":7}}]}`:        "events",
		`{"type":"event","session_id":"s","session_key":"k","cursor":"c","events":[{"type":"interaction_pending","at":` + at + `,"data":{}}]}`: "events",
	}
	for raw, wrong := range client {
		fits(t, c.ClientFrame([]byte(raw)), wrong, raw)
	}
	for raw, wrong := range server {
		require.True(t, json.Valid([]byte(raw)), raw)
		_, err := c.ServerMessage([]byte(raw))
		fits(t, err, wrong, raw)
	}
}

func fits(t *testing.T, err error, wrong, raw string) {
	t.Helper()
	if wrong == "" {
		require.NoError(t, err, raw)
		return
	}
	require.ErrorContains(t, err, wrong, raw)
}
