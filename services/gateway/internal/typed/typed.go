// Package typed makes the codes that people compare or type.
package typed

import (
	"crypto/rand"
	"math/big"
	"strings"
)

// codeLetters are the letters of a code: none looks like another.
const codeLetters = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"

const codeLength = 8

// New makes a code by chance.
func New() string {
	var b strings.Builder
	n := big.NewInt(int64(len(codeLetters)))
	for range codeLength {
		i, err := rand.Int(rand.Reader, n)
		if err != nil {
			panic(err) // the reader never fails since Go 1.24
		}
		b.WriteByte(codeLetters[i.Int64()])
	}
	return b.String()
}

// WellFormed reports whether a text can be a code.
func WellFormed(code string) bool {
	if len(code) != codeLength {
		return false
	}
	for i := range code {
		if !strings.ContainsRune(codeLetters, rune(code[i])) {
			return false
		}
	}
	return true
}
