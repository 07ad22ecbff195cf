// Package quota keeps one owner from using up what all owners share: the
// number and size of what waits, the space of the record, and the gateway's
// time. It only counts; whoever asks it acts on the answer.
package quota

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// Limits are what each owner may use; zero is no limit.
type Limits struct {
	// Open requests at a time, and their bytes together.
	Open      int
	OpenBytes int64
	// DayBytes is what an owner's requests may add to the streams in a day. An
	// owner that was quiet for a day may use all of it at once.
	DayBytes int64
	// DayTalk is how many bytes an owner may tell of its sessions in a day. A quarter
	// is kept for states and receipts, so that work goes on when the conversation
	// itself has used up the rest.
	DayTalk int64
	// Sessions that live at a time. One that has ended does not count.
	Sessions int
	// DayRefusals is how many requests a day are refused on the record.
	DayRefusals int
}

const (
	// minCharge is what the smallest request costs the streams, with its
	// events and its decision, in bytes.
	minCharge = 4 << 10
	day       = 24 * time.Hour
	// noteEvery is how often Note is true for one owner.
	noteEvery = time.Minute
	// many is how many requests and withdrawals of one owner in a minute are worth a
	// word: others wait behind them, whatever becomes of them.
	many = 2000
)

// Rate is the field of what time alone makes free again.
const Rate = "quota.rate"

// Owner is whose account is charged. The server's accounts bound how many
// there are.
type Owner struct{ Tenant, Name string }

// Ledger has an account for each owner. Its methods are safe for concurrent
// use.
type Ledger struct {
	limits Limits
	now    func() time.Time

	mu       sync.Mutex
	accounts map[Owner]*account
}

type account struct {
	open     int
	bytes    int64
	volume   bucket
	talk     bucket
	refusals bucket
	noted    time.Time
	taken    int // since minute
	minute   time.Time
}

// New makes an empty ledger.
func New(l Limits, now func() time.Time) *Ledger {
	return &Ledger{limits: l, now: now, accounts: map[Owner]*account{}}
}

// Check reports whether an owner may have one more request of that size, and
// charges it for the day if so. The answer names the quota that is used up; nil
// is yes. Whoever opens the request calls Open.
func (l *Ledger) Check(o Owner, size int) *hitl.Field {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(o)
	if n := l.limits.Open; n > 0 && a.open >= n {
		return &hitl.Field{Field: "quota.open", Problem: fmt.Sprintf("this owner has %d open requests, and %d is the limit", a.open, n)}
	}
	if n := l.limits.OpenBytes; n > 0 && a.bytes+int64(size) > n {
		return &hitl.Field{Field: "quota.bytes", Problem: fmt.Sprintf(
			"this owner's open requests have %d bytes; with the %d of this one they would exceed the limit of %d", a.bytes, size, n)}
	}
	if n := l.limits.DayBytes; n > 0 && !a.volume.take(float64(max(size, minCharge)), float64(n), l.now()) {
		return &hitl.Field{Field: Rate, Problem: fmt.Sprintf("this owner has used up its %d bytes a day; a part is free again later", n)}
	}
	return nil
}

// Charge charges an owner for the day for a request that never is open, and reports
// whether that is within its quota.
func (l *Ledger) Charge(o Owner, size int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.limits.DayBytes
	return n <= 0 || l.account(o).volume.take(float64(max(size, minCharge)), float64(n), l.now())
}

// Open counts a request that is open now, whatever the limits say.
func (l *Ledger) Open(o Owner, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(o)
	a.open++
	a.bytes += int64(size)
}

// Close counts one that no longer is.
func (l *Ledger) Close(o Owner, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(o)
	a.open--
	a.bytes -= int64(size)
}

// Refuse reports whether one more refusal of the owner's requests goes on the
// record.
func (l *Ledger) Refuse(o Owner) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.limits.DayRefusals
	return n <= 0 || l.account(o).refusals.take(1, float64(n), l.now())
}

// Talk charges an owner for something it tells of its sessions, and reports whether
// that is within its day. Of what is not, nothing is charged. text is conversation
// and may use less than the rest, see DayTalk.
func (l *Ledger) Talk(o Owner, size int, text bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.limits.DayTalk
	most := float64(n)
	if text {
		most -= most / 4
	}
	return n <= 0 || l.account(o).talk.takeUpTo(float64(size), float64(n), most, l.now())
}

// Told charges an owner for what somebody else let pass, whatever the limits say.
func (l *Ledger) Told(o Owner, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.limits.DayTalk; n > 0 {
		l.account(o).talk.takeUpTo(float64(size), float64(n), math.Inf(1), l.now())
	}
}

// Note reports whether it is time to log something about the owner again, so
// that a flood of requests is none of log lines.
func (l *Ledger) Note(o Owner) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, now := l.account(o), l.now()
	if !a.noted.IsZero() && now.Sub(a.noted) < noteEvery {
		return false
	}
	a.noted = now
	return true
}

// Took counts a request or withdrawal that was taken in, and reports whether it is
// the one that makes them many in a minute.
func (l *Ledger) Took(o Owner) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, now := l.account(o), l.now()
	if now.Sub(a.minute) >= time.Minute {
		a.taken, a.minute = 0, now
	}
	a.taken++
	return a.taken == many
}

func (l *Ledger) account(o Owner) *account {
	a := l.accounts[o]
	if a == nil {
		a = &account{}
		l.accounts[o] = a
	}
	return a
}

// Daily is an allowance for each of many, who do not know of each other. Its methods are
// safe for concurrent use.
type Daily struct {
	size float64

	mu sync.Mutex
	of map[string]*bucket
}

// NewDaily gives each the same in a day, and as much at once to whoever was quiet for one.
func NewDaily(size int) *Daily { return &Daily{size: float64(size), of: map[string]*bucket{}} }

// Take reports whether n is left for somebody, and charges it if so.
func (d *Daily) Take(who string, n int, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.of[who]
	if b == nil {
		b = &bucket{at: now}
		d.of[who] = b
	}
	return b.take(float64(n), d.size, now)
}

// Give takes back what was charged to somebody for nothing.
func (d *Daily) Give(who string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.of[who]; b != nil {
		b.used = max(0, b.used-float64(n))
	}
}

// bucket is an allowance that comes back evenly over a day.
type bucket struct {
	used float64
	at   time.Time
}

func (b *bucket) take(n, size float64, now time.Time) bool { return b.takeUpTo(n, size, size, now) }

// takeUpTo takes n unless more than most would be used then, of an allowance of size.
func (b *bucket) takeUpTo(n, size, most float64, now time.Time) bool {
	if since := now.Sub(b.at); since > 0 {
		b.used = max(0, b.used-size*since.Seconds()/day.Seconds())
		b.at = now
	}
	if b.used+n > most {
		return false
	}
	b.used += n
	return true
}
