// Command deps proves the dependency direction of the workspace, that each
// module builds alone, and that every direct dependency is explained in
// docs/dependencies.md. Go itself only refuses cycles between packages, so that
// two modules may import each other and a service another service; this program
// refuses both. Run it at the root of the work tree.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "deps:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	pkgs, err := list()
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range check(pkgs) {
		errs = append(errs, errors.New(v))
	}
	dirs, err := modules()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, dir := range dirs {
		if err := buildAlone(dir); err != nil {
			errs = append(errs, err)
		}
	}
	// The tools stand outside the workspace and are documented all the same.
	rows, err := undocumented(append(dirs, "tools"))
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, r := range rows {
		errs = append(errs, errors.New(r))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%d violations:\n%w", len(errs), err)
	}
	fmt.Fprintf(out, "deps: %d packages point one way, %d modules build alone, every dependency has its row\n", len(project(pkgs)), len(dirs))
	return nil
}

// list asks the go command for every package of the workspace and everything
// below it.
func list() ([]pkg, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,TestImports,XTestImports,Deps", "work")
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -deps work: %w", err)
	}
	return decode(strings.NewReader(string(raw)))
}

// modules returns the directory of every module in go.work.
func modules() ([]string, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}")
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	return strings.Fields(string(raw)), nil
}

// buildAlone builds a module by its own go.mod, as somebody who depends on it
// would. The null device keeps the binaries out of the tree.
func buildAlone(dir string) error {
	cmd := exec.Command("go", "build", "-o", os.DevNull, "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if raw, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("module %s does not build with GOWORK=off: %w\n%s", filepath.Base(dir), err, raw)
	}
	return nil
}
