package door

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

// contentTypes are set here because a machine's own table may say otherwise.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".json": "application/json",
	".webmanifest": "application/manifest+json", ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8",
}

const (
	indexFile    = "index.html"
	elementsFile = "elements.js" // one module with the custom elements, for other pages
)

// static serves the web app from memory: files by name, and the page for every
// address that only the page understands.
type static struct{ files map[string]staticFile }

type staticFile struct {
	data            []byte
	etag, typ, keep string
}

func newStatic(web fs.FS) (*static, error) {
	s := &static{files: map[string]staticFile{}}
	err := fs.WalkDir(web, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(web, name)
		if err != nil {
			return err
		}
		f := staticFile{data: data, etag: etag(data), keep: "no-cache"}
		ext := strings.ToLower(path.Ext(name))
		if f.typ = contentTypes[ext]; f.typ == "" {
			f.typ = mime.TypeByExtension(ext)
		}
		if f.typ == "" {
			f.typ = "application/octet-stream"
		}
		// The build puts a hash of the content into these names.
		if strings.HasPrefix(name, "assets/") {
			f.keep = "public, max-age=31536000, immutable"
		}
		s.files[name] = f
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("door: web app: %w", err)
	}
	if _, ok := s.files[indexFile]; !ok {
		return nil, fmt.Errorf("door: the web app has no %s", indexFile)
	}
	return s, nil
}

func (s *static) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		fail(w, http.StatusMethodNotAllowed, "method_not_allowed", r.Method+" is not allowed here; allowed: GET, HEAD")
		return
	}
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	f, ok := s.files[name]
	if !ok {
		if strings.HasPrefix(name, "assets/") {
			http.NotFound(w, r)
			return
		}
		f = s.files[indexFile]
	}
	h := w.Header()
	h.Set("Content-Type", f.typ)
	h.Set("Cache-Control", f.keep)
	h.Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
}

// etag names a content.
func etag(data []byte) string {
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}
