package display

import "strings"

// Bounds of counting: beyond them two texts have little in common, and both are
// counted whole.
const (
	maxCounted = 20_000 // lines
	maxChanges = 1500
)

// Changes counts the lines that are added and removed on the shortest way
// from one text to another (Myers).
func Changes(before, after string) (added, removed int) {
	a, b := splitLines(before), splitLines(after)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	n, m := len(a), len(b)
	if n == 0 || m == 0 || n+m > maxCounted {
		return m, n
	}
	// reach is how far each diagonal gets with so many changes.
	limit := min(n+m, maxChanges)
	reach := make([]int, 2*limit+3)
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			i := k + limit + 1
			x := reach[i-1] + 1
			if k == -d || k != d && reach[i-1] < reach[i+1] {
				x = reach[i+1]
			}
			for x < n && x-k < m && a[x] == b[x-k] {
				x++
			}
			reach[i] = x
			if x >= n && x-k >= m {
				added = (d + m - n) / 2
				return added, d - added
			}
		}
	}
	return m, n
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}
