package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// readDocs reads the comments of the types and fields of packages, as
// hitl.Decision and hitl.Decision.Digest.
func readDocs(dirs ...string) (map[string]string, error) {
	docs := map[string]string{}
	for _, dir := range dirs {
		files, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file.Name()), nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			for _, decl := range parsed.Decls {
				if gd, ok := decl.(*ast.GenDecl); ok && gd.Tok == token.TYPE {
					readTypes(docs, parsed.Name.Name, gd)
				}
			}
		}
	}
	return docs, nil
}

func readTypes(docs map[string]string, pkg string, gd *ast.GenDecl) {
	for _, spec := range gd.Specs {
		ts := spec.(*ast.TypeSpec)
		name := pkg + "." + ts.Name.Name
		docs[name] = cmp.Or(text(ts.Doc), text(gd.Doc))
		st, ok := ts.Type.(*ast.StructType)
		if !ok || name == "wire.Client" { // whose comments say which frame has what
			continue
		}
		fields := map[string]string{} // by their names in Go
		for _, f := range st.Fields.List {
			for _, id := range f.Names {
				docs[name+"."+id.Name] = strings.TrimSpace(text(f.Doc) + " " + text(f.Comment))
				if f.Tag != nil {
					tag, _ := strconv.Unquote(f.Tag.Value)
					fields[id.Name], _, _ = strings.Cut(reflect.StructTag(tag).Get("json"), ",")
				}
			}
		}
		// Who reads the document knows the fields by their names in JSON.
		say := func(key string) {
			docs[key] = word.ReplaceAllStringFunc(docs[key], func(w string) string { return cmp.Or(fields[w], w) })
		}
		say(name)
		for id := range fields {
			say(name + "." + id)
		}
	}
}

var word = regexp.MustCompile(`\w+`)

// text is a comment in one line.
func text(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
