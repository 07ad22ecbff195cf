// Package web holds the built web app. Its bundle is committed, so that a
// gateway builds without Node; `npm run build` in this directory writes it anew.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// FS returns the files of the app with index.html at its root. Names below
// assets/ carry a hash of their content and may be cached for ever.
func FS() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the name is a constant and valid
	}
	return sub
}
