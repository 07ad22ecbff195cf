// Package due orders things by the time at which they fall due. One timer then
// serves all of them, so that far times cost nothing.
package due

import (
	"container/heap"
	"time"
)

// Item is a value's place in a Queue.
type Item[T any] struct {
	Value T
	at    time.Time
	index int // -1: not in the queue
}

// Queue holds items by time. The zero value is empty; the caller guards it.
type Queue[T any] struct{ items order[T] }

// Len is how many wait.
func (q *Queue[T]) Len() int { return len(q.items) }

// Add puts v into the queue and reports whether it is the first to fall due.
func (q *Queue[T]) Add(v T, at time.Time) (i *Item[T], first bool) {
	i = &Item[T]{Value: v, at: at}
	heap.Push(&q.items, i)
	return i, q.items[0] == i
}

// Remove takes an item out; nil and one that is out already are fine.
func (q *Queue[T]) Remove(i *Item[T]) {
	if i.Waits() {
		heap.Remove(&q.items, i.index)
	}
}

// Waits reports whether the item is in its queue.
func (i *Item[T]) Waits() bool { return i != nil && i.index >= 0 }

// Take takes out what is due.
func (q *Queue[T]) Take(now time.Time) []T {
	var out []T
	for len(q.items) > 0 && !q.items[0].at.After(now) {
		i, _ := heap.Pop(&q.items).(*Item[T]) // Pop returns nothing else
		out = append(out, i.Value)
	}
	return out
}

// Next is how long until the first falls due, at most limit.
func (q *Queue[T]) Next(now time.Time, limit time.Duration) time.Duration {
	if len(q.items) == 0 {
		return limit
	}
	return min(limit, q.items[0].at.Sub(now))
}

// order is the heap.
type order[T any] []*Item[T]

func (o order[T]) Len() int           { return len(o) }
func (o order[T]) Less(i, j int) bool { return o[i].at.Before(o[j].at) }
func (o order[T]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].index, o[j].index = i, j
}

func (o *order[T]) Push(x any) {
	i, _ := x.(*Item[T]) // Add pushes nothing else
	i.index = len(*o)
	*o = append(*o, i)
}

func (o *order[T]) Pop() any {
	old := *o
	i := old[len(old)-1]
	old[len(old)-1] = nil
	*o = old[:len(old)-1]
	i.index = -1
	return i
}
