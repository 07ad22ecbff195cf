package plan

import (
	"slices"
	"time"
)

// Backwards are deliveries in the order in which they are to be written down: what the
// fate of another one makes due earlier is there before that one. Those to deciders are
// the last ones.
func Backwards(list []Delivery) []Delivery {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Delivery) int {
		switch {
		case a.Wait == 0 && b.Wait > 0:
			return -1
		case a.Wait > 0 && b.Wait == 0:
			return 1
		}
		return b.Due.Compare(a.Due)
	})
	return list
}

// Tells reports whether it tells a person of the request: it asks no decider, and
// reminds of nothing.
func (d *Delivery) Tells() bool { return d.Wait == 0 && !IsReminder(d.Step) }

// Next are the deliveries that need not wait where what was due at due told nobody: the
// next ones that can tell somebody who was not to be told before. To repeat what failed
// at once would be in vain.
func Next(list []Delivery, due time.Time, can func(Delivery) bool) (out []Delivery) {
	for _, d := range list {
		if !d.Due.After(due) || d.Again || !d.Tells() || !can(d) {
			continue
		}
		if len(out) > 0 && d.Due.Before(out[0].Due) {
			out = nil
		}
		if len(out) == 0 || d.Due.Equal(out[0].Due) {
			out = append(out, d)
		}
	}
	return out
}

// Forward returns list with what follows a step that can tell nobody due at that step's
// time, and how many such steps there are.
func Forward(list []Delivery, can func(Delivery) bool) (out []Delivery, idle int) {
	out = slices.Clone(list)
	seen := map[int64]bool{}
	for _, d := range list {
		at := d.Due.UnixNano()
		if !d.Tells() || d.Skip == tooLate || seen[at] {
			continue
		}
		seen[at] = true
		if slices.ContainsFunc(list, func(x Delivery) bool { return x.Tells() && x.Due.Equal(d.Due) && can(x) }) {
			continue
		}
		idle++
		for _, n := range Next(list, d.Due, can) {
			i := slices.IndexFunc(list, func(x Delivery) bool { return x.Step == n.Step && x.Address == n.Address })
			out[i].Due = Earlier(out[i].Due, d.Due)
		}
	}
	return out, idle
}
