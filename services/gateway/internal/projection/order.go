package projection

import (
	"slices"

	"github.com/banksman/banksman/services/gateway/internal/cursor"
)

// order is what waits in one tenant, oldest first. A list reads a part of it and need
// not sort what everybody asked.
type order struct {
	rows []ordered
	gone int // rows without an entry
}

type ordered struct {
	cursor.Row
	en *Entry // nil: it does not wait any more
}

func (o *order) find(r cursor.Row) (int, bool) {
	return slices.BinarySearchFunc(o.rows, r, func(have ordered, r cursor.Row) int { return have.Compare(r) })
}

func (o *order) add(en *Entry) {
	r := en.row()
	i, here := o.find(r)
	if here {
		o.gone--
		o.rows[i].en = en
		return
	}
	o.rows = slices.Insert(o.rows, i, ordered{r, en})
}

// remove leaves a hole, so that it costs the same however many wait.
func (o *order) remove(en *Entry) {
	i, here := o.find(en.row())
	if !here || o.rows[i].en != en {
		return
	}
	o.rows[i].en = nil
	if o.gone++; o.gone*4 <= len(o.rows) {
		return
	}
	o.rows = slices.DeleteFunc(o.rows, func(r ordered) bool { return r.en == nil })
	o.gone = 0
}

// after appends up to n that come after r to out; after zero come all.
func (o *order) after(r cursor.Row, n int, out []ordered) []ordered {
	i, here := o.find(r)
	switch {
	case r == cursor.Row{}:
		i = 0
	case here:
		i++
	}
	for ; i < len(o.rows) && n > 0; i++ {
		if o.rows[i].en != nil {
			out = append(out, o.rows[i])
			n--
		}
	}
	return out
}

func (en *Entry) row() cursor.Row { return cursor.NewRow(en.RequestedAt, en.Ref) }
