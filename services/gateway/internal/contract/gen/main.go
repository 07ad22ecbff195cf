// Command gen writes the documents of package contract from the Go types of
// packages hitl and wire, their comments included. Run it in the directory of
// package contract.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// sources is where the comments are, from the directory of package contract.
const sources = "../../../../pkg"

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	files, err := documents(filepath.Join(dir, sources))
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// documents are the files by their names; the comments are read below dir.
func documents(dir string) (map[string][]byte, error) {
	docs, err := readDocs(filepath.Join(dir, "hitl"), filepath.Join(dir, "hitl", "internal", "invalid"), filepath.Join(dir, "wire"))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, doc := range map[string]any{"openapi.json": openAPI(docs), "frames.schema.json": frames(docs)} {
		if files[name], err = encode(doc); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return files, nil
}

func encode(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", " "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
