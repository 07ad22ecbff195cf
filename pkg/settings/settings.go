// Package settings fills a program's flags from three places: the command line,
// the environment, and a YAML file. The first that names a flag wins, and what
// none of them names keeps its default. A name that no flag has is an error
// everywhere, with the one that may have been meant.
//
// No flag takes a secret: those are files whose names are flags.
package settings

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/strictyaml"
)

// FileFlag names the YAML file; Parse adds it.
const FileFlag = "settings"

// maxFile bounds the file, in bytes.
const maxFile = 1 << 20

// Set is the flags of one program.
type Set struct {
	*flag.FlagSet
	prefix string // of the environment
	file   *string
	from   map[string]string // where a flag's value is from, if not the default
}

// New makes the flags of a program without any but FileFlag. The environment's
// names are made of its name: -base-url of banksman-gateway is
// BANKSMAN_GATEWAY_BASE_URL.
func New(program string) *Set {
	fs := flag.NewFlagSet(program, flag.ContinueOnError)
	s := &Set{FlagSet: fs, prefix: envName(program) + "_", from: map[string]string{}}
	s.file = fs.String(FileFlag, "", "YAML `file` with the flags below, by their names")
	return s
}

func envName(s string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", " ", "_").Replace(s))
}

// Env is the name of a flag in the environment.
func (s *Set) Env(name string) string { return s.prefix + envName(name) }

// list is a flag that may be given several times.
type list func(string) error

func (list) String() string       { return "" }
func (l list) Set(v string) error { return l(v) }

// List adds a flag that may be given several times: in the file as a list, in
// the environment one to a line.
func (s *Set) List(name, usage string, add func(string) error) { s.Var(list(add), name, usage) }

// Repeated reports whether a flag may be given several times.
func Repeated(f *flag.Flag) bool {
	_, ok := f.Value.(list)
	return ok
}

// From says where a flag's value comes from; "" is its default.
func (s *Set) From(name string) string { return s.from[name] }

// Parse reads the command line, then environ (as of os.Environ), then the file.
// The error says where it found what, and is flag.ErrHelp where help was asked
// for. Nothing but flags may stand on the command line.
func (s *Set) Parse(args, environ []string) error {
	if err := s.FlagSet.Parse(args); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			err = s.meant(err, args)
		}
		return err
	}
	if s.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", s.Arg(0))
	}
	s.Visit(func(f *flag.Flag) { s.from[f.Name] = "the command line" })
	if err := s.environment(environ); err != nil {
		return err
	}
	if *s.file == "" {
		return nil
	}
	return s.read(*s.file)
}

var undefined = regexp.MustCompile(`^flag provided but not defined: -(.*)$`)

func (s *Set) meant(err error, args []string) error {
	if m := undefined.FindStringSubmatch(err.Error()); m != nil {
		if best := strictyaml.Nearest(m[1], s.names()); best != "" {
			return fmt.Errorf("%w (is -%s meant?)", err, best)
		}
	}
	return err
}

func (s *Set) names() (out []string) {
	s.VisitAll(func(f *flag.Flag) { out = append(out, f.Name) })
	return out
}

// injected are names that Kubernetes and container links put beside a service
// of the program's name: nobody meant them as settings.
var injected = regexp.MustCompile(`^(SERVICE_(HOST|PORT)(_.*)?|PORT(_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?|NAME|ENV_.*)$`)

func (s *Set) environment(environ []string) error {
	byEnv := map[string]string{}
	var known []string
	s.VisitAll(func(f *flag.Flag) {
		byEnv[s.Env(f.Name)] = f.Name
		known = append(known, s.Env(f.Name))
	})
	for _, kv := range slices.Sorted(slices.Values(environ)) {
		key, value, _ := strings.Cut(kv, "=")
		rest, ours := strings.CutPrefix(key, s.prefix)
		if !ours {
			continue
		}
		name, ok := byEnv[key]
		if !ok {
			if injected.MatchString(rest) {
				continue
			}
			return s.unknown("the environment: "+key, key, known)
		}
		values := []string{value}
		if Repeated(s.Lookup(name)) {
			values = slices.DeleteFunc(strings.Split(value, "\n"), func(v string) bool { return strings.TrimSpace(v) == "" })
		} else if value == "" {
			continue // compose files set what nobody chose to nothing
		}
		if err := s.take(name, key, values); err != nil {
			return fmt.Errorf("the environment: %s: %w", key, err)
		}
	}
	return nil
}

// take sets a flag from a place, unless an earlier place has.
func (s *Set) take(name, from string, values []string) error {
	if s.from[name] != "" {
		return nil
	}
	for _, v := range values {
		if err := s.Lookup(name).Value.Set(v); err != nil {
			return fmt.Errorf("%q: %w", v, err)
		}
	}
	s.from[name] = from
	return nil
}

func (s *Set) unknown(where, name string, known []string) error {
	if best := strictyaml.Nearest(name, known); best != "" {
		return fmt.Errorf("%s: unknown; is %s meant?", where, best)
	}
	return fmt.Errorf("%s: unknown", where)
}

func (s *Set) read(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("-%s: %w", FileFlag, err)
	}
	if info.Size() > maxFile {
		return fmt.Errorf("-%s: %s is larger than %d bytes", FileFlag, path, maxFile)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("-%s: %w", FileFlag, err)
	}
	where := func(at strictyaml.Position) string {
		return fmt.Sprintf("%s:%d:%d", filepath.Clean(path), at.Line, at.Column)
	}
	fields, err := strictyaml.Flat(raw)
	var bad *strictyaml.Error
	if errors.As(err, &bad) {
		return fmt.Errorf("%s: %w", where(bad.Position), bad)
	}
	if err != nil {
		return err
	}
	known := slices.DeleteFunc(s.names(), func(n string) bool { return n == FileFlag })
	for _, f := range fields {
		at := where(f.Position)
		switch {
		case !slices.Contains(known, f.Name):
			return s.unknown(at+": "+f.Name, f.Name, known)
		case f.List && !Repeated(s.Lookup(f.Name)):
			return fmt.Errorf("%s: %s: takes one value", at, f.Name)
		}
		if err := s.take(f.Name, at, f.Values); err != nil {
			return fmt.Errorf("%s: %s: %w", at, f.Name, err)
		}
	}
	return nil
}
