// Package invalid says what is wrong with an input, field by field.
package invalid

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Field is one problem of an input, by the name of the field that has it.
type Field struct {
	Field   string `json:"field"`
	Problem string `json:"problem"`
}

// Error lists what is wrong with an input.
type Error struct{ Fields []Field }

// Bounds of an Error: it becomes part of a decision, and that has to fit
// whatever the input was.
const (
	maxFields  = 32
	maxProblem = 500 // bytes, of a field's name and of its problem
)

// New makes an Error of what was found, within its bounds.
func New(found []Field) *Error {
	e := &Error{}
	for i, f := range found {
		if i == maxFields {
			e.Fields = append(e.Fields, Field{Field: "...", Problem: fmt.Sprintf("and %d problems more", len(found)-i)})
			break
		}
		e.Fields = append(e.Fields, Field{Field: clip(f.Field), Problem: clip(f.Problem)})
	}
	return e
}

func clip(s string) string {
	if len(s) <= maxProblem {
		return s
	}
	n := maxProblem
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

func (e *Error) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Field + ": " + f.Problem
	}
	return "invalid: " + strings.Join(parts, "; ")
}

// List gathers problems.
type List struct{ Fields []Field }

// Add notes a problem.
func (l *List) Add(field, problem string) {
	l.Fields = append(l.Fields, Field{Field: field, Problem: problem})
}

// Need notes a text that is missing.
func (l *List) Need(field, value string) {
	if strings.TrimSpace(value) == "" {
		l.Add(field, "is missing")
	}
}

// Max notes a text of more than n characters.
func (l *List) Max(field, value string, n int) {
	if utf8.RuneCountInString(value) > n {
		l.Add(field, fmt.Sprintf("is longer than %d characters", n))
	}
}
