package cursor

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// Row is a place in a list of interactions, the same on every gateway. The row itself
// need not be there any more.
type Row struct {
	At  int64 // when it was asked, in nanoseconds since 1970
	Ref subject.Ref
}

// maxRow is the longest text of a Row, in bytes: three tokens and a number.
const maxRow = 1024

// NewRow is the place of what was asked then.
func NewRow(at time.Time, ref subject.Ref) Row { return Row{at.UnixNano(), ref} }

// RowOf is the place of an interaction in a list.
func RowOf(ix *wire.Interaction) Row {
	ref, _ := subject.ParseRef(ix.Key)
	return NewRow(ix.CreatedAt, ref)
}

// Compare orders rows by when they were asked.
func (r Row) Compare(o Row) int {
	switch {
	case r.At < o.At:
		return -1
	case r.At > o.At:
		return 1
	case r.Ref == o.Ref: // mostly; it makes no text
		return 0
	}
	return strings.Compare(r.Ref.String(), o.Ref.String())
}

func (r Row) String() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", r.At, r.Ref))
}

// ParseRow reads what String writes.
func ParseRow(s string) (r Row, ok bool) {
	if len(s) > maxRow {
		return r, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	at, key, found := strings.Cut(string(raw), " ")
	if err != nil || !found {
		return r, false
	}
	ref, ok := subject.ParseRef(key)
	n, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return Row{}, false
	}
	return Row{n, ref}, true
}
