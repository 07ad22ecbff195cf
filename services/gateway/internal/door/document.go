package door

import (
	"bytes"
	"net/http"
	"time"
)

// document serves one of the protocol's documents. They are the same for
// everybody and hold no secret, so nobody has to sign in to read them; a copy
// is good as long as its tag is.
func document(data []byte) http.HandlerFunc {
	tag := etag(data)
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "public, no-cache")
		h.Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}
}
