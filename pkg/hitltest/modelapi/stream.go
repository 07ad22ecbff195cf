package modelapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf8"
)

// chunkBytes is the size of one delta; small enough that inputs come in pieces.
const chunkBytes = 48

// stream writes a reply as server-sent events. wait waits at a gate; it reports
// false where nobody reads any more.
func stream(w http.ResponseWriter, req *Request, st Step, blocks []Block, wait func(gate string) bool) error {
	stop := st.Stop
	for _, b := range blocks {
		if err := b.validate(); err != nil {
			return err
		}
		if b.tool && stop == "" {
			stop = "tool_use"
		}
	}
	if stop == "" {
		stop = "end_turn"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	out := eventWriter{w: w, flush: http.NewResponseController(w)}
	out.send("message_start", map[string]any{"message": map[string]any{
		"id": fmt.Sprintf("msg_%06d", req.Seq), "type": "message", "role": "assistant", "model": req.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]int{"input_tokens": 1, "output_tokens": 1},
	}})
	for i, b := range blocks {
		start := map[string]any{"type": "text", "text": ""}
		kind, field, data := "text_delta", "text", b.text
		if b.tool {
			start = map[string]any{"type": "tool_use", "id": b.id, "name": b.name, "input": map[string]any{}}
			kind, field, data = "input_json_delta", "partial_json", b.input
		}
		out.send("content_block_start", map[string]any{"index": i, "content_block": start})
		for n, piece := range split(data) {
			if n == 1 && b.pause != "" && !wait(b.pause) {
				panic(http.ErrAbortHandler)
			}
			out.send("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": kind, field: piece}})
		}
		out.send("content_block_stop", map[string]any{"index": i})
	}
	out.send("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil},
		"usage": map[string]int{"output_tokens": 1},
	})
	out.send("message_stop", map[string]any{})
	return out.err
}

type eventWriter struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	err   error // the first; later events are not written
}

func (o *eventWriter) send(kind string, data map[string]any) {
	if o.err != nil {
		return
	}
	data["type"] = kind
	b, err := json.Marshal(data)
	if err != nil {
		o.err = err
		return
	}
	if _, o.err = fmt.Fprintf(o.w, "event: %s\ndata: %s\n\n", kind, b); o.err == nil {
		o.err = o.flush.Flush()
	}
}

// split cuts at rune borders, so that every piece is a valid JSON string.
func split(s string) []string {
	var out []string
	for len(s) > chunkBytes {
		n := chunkBytes
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	if s != "" {
		out = append(out, s)
	}
	return out
}
