package gateway

import (
	"io/fs"
	"testing/fstest"
)

func webFiles() fs.FS {
	return fstest.MapFS{"index.html": {Data: []byte("<!doctype html><title>Banksman</title><p>The web app is not built in.\n")}}
}
