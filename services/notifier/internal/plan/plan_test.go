package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

var start = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC) // a Monday

func delay(t *testing.T, s string) Delay {
	t.Helper()
	var d Delay
	require.NoError(t, d.UnmarshalText([]byte(s)))
	return d
}

func people(names ...string) []Recipient {
	var out []Recipient
	for _, n := range names {
		out = append(out, Recipient{Name: n, Channels: []Reach{{Channel: "push"}, {Channel: "mail", To: n + "@example.org"}}})
	}
	return out
}

func checked(t *testing.T, p *Policy) *Policy {
	t.Helper()
	require.NoError(t, p.Check(func(s string) bool { return s != "" && !strings.ContainsAny(s, " ./") }, []string{"push", "mail"}))
	return p
}

// told renders a plan: when, by which step, whom.
func told(p *Policy, ix *Interaction) (route string, out []string) {
	route, list := p.Deliveries(ix)
	for _, d := range list {
		s := fmt.Sprintf("%s %s %s", d.Due.Sub(ix.Created), d.Step, d.Address)
		if d.Again {
			s += " again"
		}
		if d.Skip != "" {
			s += " not: " + d.Skip
		}
		out = append(out, s)
	}
	return route, out
}

func in(d time.Duration) *time.Time {
	at := start.Add(d)
	return &at
}

func TestStepsFollowEachOther(t *testing.T) {
	t.Parallel()
	p := checked(t, &Policy{
		Recipients: people("ada", "bob"),
		Routes: []Route{{
			Name: "all", Steps: []Step{
				{After: delay(t, "5s"), To: []string{"ada/push"}},
				{After: delay(t, "60s"), To: []string{"ada"}},
				{After: delay(t, "5m or 50%"), To: []string{"bob/push", "bob", "ada/mail"}},
			},
		}},
	})
	ix := &Interaction{Created: start, Attention: in(5 * time.Minute), Expires: in(20 * time.Minute)}
	route, got := told(p, ix)
	require.Equal(t, "all", route)
	require.Equal(t, []string{
		"5s step1 ada/push", "1m0s step2 ada/push again", "1m0s step2 ada/mail",
		"5m0s step3 bob/push", "5m0s step3 bob/mail", "5m0s step3 ada/mail again",
		"5m0s reminder ada/push again", "5m0s reminder ada/mail again",
	}, got)

	t.Run("half of a short time comes before five minutes", func(t *testing.T) {
		t.Parallel()
		_, got := told(p, &Interaction{Created: start, Expires: in(4 * time.Minute)})
		require.Contains(t, got, "2m0s step3 bob/push")
	})
	t.Run("what comes too late is said not to come", func(t *testing.T) {
		t.Parallel()
		_, got := told(p, &Interaction{Created: start, Expires: in(30 * time.Second)})
		require.Equal(t, []string{
			"5s step1 ada/push", "15s step3 bob/push", "15s step3 bob/mail", "15s step3 ada/mail",
			"1m0s step2 ada/push again not: its time is over before", "1m0s step2 ada/mail again not: its time is over before",
		}, got)
	})
	t.Run("the first step comes in time whatever it waits", func(t *testing.T) {
		t.Parallel()
		_, got := told(p, &Interaction{Created: start, Expires: in(4 * time.Second)})
		require.Equal(t, "2s step1 ada/push", got[0])
	})
}

func TestB42_RemindersComeBeforeTheEnd(t *testing.T) {
	t.Parallel()
	p := checked(t, &Policy{
		Recipients: people("ada", "bob"),
		Routes: []Route{{
			Name: "all", Remind: &[]Delay{delay(t, "50%"), delay(t, "1m"), delay(t, "2h")},
			Steps: []Step{{To: []string{"ada/push"}}, {After: delay(t, "8m"), To: []string{"bob/mail"}}},
		}},
	})
	_, got := told(p, &Interaction{Created: start, Attention: in(time.Minute), Expires: in(10 * time.Minute)})
	require.Equal(t, []string{
		"0s step1 ada/push", "5m0s reminder ada/push again", "8m0s step2 bob/mail",
		"9m0s reminder2 ada/push again", "9m0s reminder2 bob/mail again",
	}, got)
	_, got = told(p, &Interaction{Created: start})
	require.Equal(t, []string{"0s step1 ada/push", "8m0s step2 bob/mail"}, got, "without a deadline there is no end to remind of")
}

func TestStepsAreRepeated(t *testing.T) {
	t.Parallel()
	p := checked(t, &Policy{
		Recipients: people("ada", "bob"),
		Routes: []Route{{
			Name: "all", Repeat: 2, Every: delay(t, "10m"),
			Steps: []Step{{To: []string{"ada/push"}}, {After: delay(t, "5m"), To: []string{"bob/push"}}},
		}},
	})
	_, got := told(p, &Interaction{Created: start, Expires: in(24 * time.Minute)})
	require.Equal(t, []string{
		"0s step1 ada/push", "5m0s step2 bob/push", "10m0s step1-2 ada/push again", "15m0s step2-2 bob/push again",
		"20m0s step1-3 ada/push again", "25m0s step2-3 bob/push again not: its time is over before",
	}, got)
}

func TestFirstRouteThatMatchesCounts(t *testing.T) {
	t.Parallel()
	step := []Step{{To: []string{"ada/push"}}}
	p := checked(t, &Policy{Recipients: people("ada"), Routes: []Route{
		{Name: "grave", Match: Match{Project: []string{"shop"}, Risk: []string{"high", "critical"}}, Steps: step},
		{Name: "night", Match: Match{Time: []Window{{From: 20 * 60, To: 6 * 60, Days: []string{"mon"}}}, Zone: "Europe/Berlin"}, Steps: step},
		{Name: "build", Match: Match{Agent: []string{"build-*"}, Tool: []string{"Bash", "mcp__*__deploy"}}, Steps: step},
		{Name: "ask", Match: Match{Kind: []string{"question"}, Session: []string{"s1"}, Tenant: []string{"t"}}, Steps: step},
	}})
	for _, c := range []struct {
		want string
		ix   Interaction
	}{
		{"grave", Interaction{Project: "shop", Risk: "critical"}},
		{NoRoute, Interaction{Project: "shop", Risk: "low"}},
		{NoRoute, Interaction{Project: "shop2", Risk: "high"}},
		{"build", Interaction{Agent: "build-7", Tool: "Bash"}},
		{"build", Interaction{Agent: "build-", Tool: "mcp__x__y__deploy"}},
		{NoRoute, Interaction{Agent: "rebuild-7", Tool: "Bash"}},
		{NoRoute, Interaction{Agent: "build-7", Tool: "mcp__deploy"}},
		{"ask", Interaction{Kind: "question", Session: "s1", Tenant: "t"}},
		{NoRoute, Interaction{Kind: "question", Session: "s1", Tenant: "u"}},
		// 20:00 in Berlin on Monday, then 05:59 on Tuesday, then an hour later.
		{"night", Interaction{Created: start.Add(7 * time.Hour)}},
		{"night", Interaction{Created: start.Add(16*time.Hour + 59*time.Minute)}},
		{NoRoute, Interaction{Created: start.Add(17 * time.Hour)}},
		{NoRoute, Interaction{Created: start.Add(31 * time.Hour)}}, // Tuesday's evening
	} {
		if c.ix.Created.IsZero() {
			c.ix.Created = start
		}
		route, list := p.Deliveries(&c.ix)
		require.Equal(t, c.want, route, "%+v", c.ix)
		require.Equal(t, c.want == NoRoute, len(list) == 0)
	}
}

func TestQuietHoursEndByTheClockOnTheWall(t *testing.T) {
	t.Parallel()
	at := func(zone, s string) time.Time {
		loc, err := time.LoadLocation(zone)
		require.NoError(t, err)
		v, err := time.ParseInLocation("2006-01-02 15:04", s, loc)
		require.NoError(t, err)
		return v
	}
	night := []Window{{From: 22 * 60, To: 7 * 60}}
	for _, c := range []struct{ name, zone, now, want string }{
		{"evening", "Europe/Berlin", "2026-03-02 22:00", "2026-03-03 07:00"},
		{"morning", "Europe/Berlin", "2026-03-03 06:59", "2026-03-03 07:00"},
		{"the end itself", "Europe/Berlin", "2026-03-03 07:00", "2026-03-03 07:00"},
		{"day", "Europe/Berlin", "2026-03-03 21:59", "2026-03-03 21:59"},
		{"the night that loses an hour", "Europe/Berlin", "2026-03-28 23:00", "2026-03-29 07:00"},
		{"the night that gains an hour", "Europe/Berlin", "2026-10-24 23:00", "2026-10-25 07:00"},
		{"half an hour is moved", "Australia/Lord_Howe", "2026-04-04 23:00", "2026-04-05 07:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &Recipient{Name: "ada", Channels: []Reach{{Channel: "push"}}, Zone: c.zone, Quiet: night}
			checked(t, &Policy{Recipients: []Recipient{*r}, Routes: []Route{{Name: "x", Steps: []Step{{To: []string{"ada"}}}}}})
			require.NoError(t, r.check("r", func(string) bool { return true }, []string{"push"}))
			now := at(c.zone, c.now)
			got, why := Gate(&Due{Recipient: r, Created: now, Risk: "high"}, now)
			require.True(t, at(c.zone, c.want).Equal(got), "%s", got.In(r.zone.Location))
			require.Equal(t, got.After(now), why == "quiet hours")
			got, why = Gate(&Due{Recipient: r, Created: now, Risk: "critical"}, now)
			require.True(t, got.Equal(now), "critical things are told at night")
			require.Empty(t, why)
		})
	}
	long := at("Europe/Berlin", "2026-10-25 07:00").Sub(at("Europe/Berlin", "2026-10-24 23:00"))
	require.Equal(t, 9*time.Hour, long, "the night that gains an hour has one more")
}

// Whatever the windows and the zone: what the gate lets go is not in a window,
// and a minute before it was.
func TestQuietHoursProperty(t *testing.T) {
	t.Parallel()
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"}
	rnd := rand.New(rand.NewPCG(1, 2))
	held := 0
	for range 2000 {
		r := &Recipient{Name: "ada", Channels: []Reach{{Channel: "push"}}, Zone: zones[rnd.IntN(len(zones))], Bypass: &[]string{}}
		for range 1 + rnd.IntN(3) {
			w := Window{From: TimeOfDay(rnd.IntN(1440)), To: TimeOfDay(rnd.IntN(1440))}
			for _, d := range weekdays {
				if rnd.IntN(3) == 0 {
					w.Days = append(w.Days, d)
				}
			}
			r.Quiet = append(r.Quiet, w)
		}
		if r.check("r", func(string) bool { return true }, []string{"push"}) != nil {
			continue // it leaves no time at all
		}
		now := time.Date(2026, 1, 1, 0, 0, rnd.IntN(366*86400), 0, time.UTC)
		at, why := Gate(&Due{Recipient: r, Created: now}, now)
		require.False(t, within(r.Quiet, r.zone.local(at)))
		require.Equal(t, within(r.Quiet, r.zone.local(now)), why != "")
		if why != "" {
			held++
			require.True(t, within(r.Quiet, r.zone.local(at.Add(-time.Second))), "it is held no longer than it is quiet")
		}
	}
	require.Greater(t, held, 100)
}

func TestGateHoldsBackForThoseWhoLookAfterIt(t *testing.T) {
	t.Parallel()
	p := checked(t, &Policy{Recipients: people("ada", "bob"), Routes: []Route{{Name: "x", Steps: []Step{{To: []string{"ada"}}}}}})
	ada, bob := p.Recipient("ada"), p.Recipient("bob")
	later := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct {
		name string
		due  Due
		now  time.Time
		want time.Time
		why  string
	}{
		{"nobody looks", Due{Recipient: ada, First: true}, later(5), later(5), ""},
		{"somebody looks", Due{Recipient: ada, First: true, Seen: later(4)}, later(5), later(24), "somebody has it before their eyes"},
		{"somebody looked", Due{Recipient: ada, First: true, Seen: later(4)}, later(24), later(24), ""},
		{"a look holds back the first step only", Due{Recipient: ada, Seen: later(4)}, later(5), later(5), ""},
		{"a look counts for channels, too", Due{First: true, Seen: later(4)}, later(5), later(24), "somebody has it before their eyes"},
		{"looking has an end", Due{Recipient: ada, First: true, Seen: later(299)}, later(299), later(300), "somebody has it before their eyes"},
		{"half of the time at most", Due{Recipient: ada, First: true, Seen: later(29), Expires: in(time.Minute)}, later(29), later(30), "somebody has it before their eyes"},
		{"another one's claim", Due{Recipient: bob, Claim: &Claim{"ada", later(600)}}, later(60), later(600), "ada looks after it"},
		{"a claim beyond the deadline is no quiet hours", Due{Recipient: bob, Expires: in(5 * time.Minute), Claim: &Claim{"ada", later(600)}}, later(60), later(600), "ada looks after it"},
		{"a claim that is over", Due{Recipient: bob, Claim: &Claim{"ada", later(600)}}, later(600), later(600), ""},
		{"one's own claim", Due{Recipient: ada, Claim: &Claim{"ada", later(600)}}, later(60), later(60), ""},
		{"the end is told to everybody", Due{Recipient: bob, Ended: true, Claim: &Claim{"ada", later(600)}}, later(60), later(60), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.due.Created = start
			at, why := Gate(&c.due, c.now)
			require.Equal(t, c.want, at)
			require.Equal(t, c.why, why)
		})
	}
}

func TestDigestsLeaveAtMultiples(t *testing.T) {
	t.Parallel()
	r := Recipient{Name: "ada", Channels: []Reach{{Channel: "push"}}, Zone: "Asia/Kathmandu", Digest: hitl.Duration(time.Hour)}
	require.NoError(t, r.check("r", func(string) bool { return true }, []string{"push"}))
	due := time.Date(2026, 3, 2, 12, 20, 0, 0, time.UTC) // 18:05 there
	require.Equal(t, due.Add(55*time.Minute), r.DigestAt(due, "high"))
	require.Equal(t, due.Add(55*time.Minute), r.DigestAt(due.Add(55*time.Minute), "high"), "the hour itself")
	require.Equal(t, due, r.DigestAt(due, "critical"))
}

// Whenever it is due, also around a change of the clock: what leaves with a digest leaves
// at once when it is looked at then, by the clock on the wall, within one period.
func TestDigestsLeaveWhenTheClockChanges(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"} {
		for every := time.Hour; every <= 24*time.Hour; every += time.Hour {
			r := Recipient{Name: "ada", Channels: []Reach{{Channel: "push"}}, Zone: zone, Digest: hitl.Duration(every)}
			require.NoError(t, r.check("r", func(string) bool { return true }, []string{"push"}))
			for due := time.Date(2026, 1, 1, 0, 7, 0, 0, time.UTC); due.Year() == 2026; due = due.Add(37 * time.Minute) {
				at := r.DigestAt(due, "high")
				if again := r.DigestAt(at, "high"); !again.Equal(at) || at.Before(due) || at.Sub(due) > every+time.Hour {
					t.Fatalf("%s, every %s: due %s, leaves %s, then %s", zone, every, due.In(r.zone.Location), at.In(r.zone.Location), again.In(r.zone.Location))
				}
			}
		}
	}
	berlin := Recipient{Name: "ada", Channels: []Reach{{Channel: "push"}}, Zone: "Europe/Berlin", Digest: hitl.Duration(24 * time.Hour)}
	require.NoError(t, berlin.check("r", func(string) bool { return true }, []string{"push"}))
	due := time.Date(2026, 3, 28, 23, 30, 0, 0, time.UTC) // half past midnight, an hour and a half before the change
	require.True(t, time.Date(2026, 3, 29, 22, 0, 0, 0, time.UTC).Equal(berlin.DigestAt(due, "high")), "the next midnight")
}

// simulate lets deliveries come due and messages go out as Turn says, and returns
// when they went and how many deliveries each stood for.
func simulate(t *testing.T, p Pace, arrivals []Ready) (sent []time.Time, sizes []int) {
	t.Helper()
	var ready []Ready
	now := start
	for steps := 0; len(arrivals) > 0 || len(ready) > 0; steps++ {
		require.Less(t, steps, 100_000, "it ends")
		for len(arrivals) > 0 && !arrivals[0].Due.After(now) {
			ready, arrivals = append(ready, arrivals[0]), arrivals[1:]
		}
		if len(ready) == 0 {
			now = arrivals[0].Due
			continue
		}
		pick, again := p.Turn(ready, p.Keep(sent), now)
		if len(pick) == 0 {
			require.True(t, again.After(now))
			if now = again; len(arrivals) > 0 && arrivals[0].Due.Before(now) {
				now = arrivals[0].Due // what comes wakes it up
			}
			continue
		}
		sent, sizes = append(sent, now), append(sizes, len(pick))
		for i := len(pick) - 1; i >= 0; i-- {
			ready = slices.Delete(ready, pick[i], pick[i]+1)
		}
	}
	return sent, sizes
}

// A thousand requests of one session within a minute are three messages in that
// minute, and all are told of.
func TestFloodOfOneSession(t *testing.T) {
	t.Parallel()
	p := Pace{Messages: defaultMessages, Per: defaultPer, Group: defaultGroup}
	var arrivals []Ready
	for i := range 1000 {
		arrivals = append(arrivals, Ready{Session: "s", Due: start.Add(time.Duration(i) * 55 * time.Millisecond)})
	}
	sent, sizes := simulate(t, p, arrivals)
	first := 0
	total := 0
	for i, at := range sent {
		total += sizes[i]
		if at.Before(start.Add(time.Minute)) {
			first++
		}
	}
	require.Equal(t, 1000, total)
	require.Equal(t, 3, first)
	require.Len(t, sent, 4)
	require.Equal(t, 1, sizes[0], "the first is told at once")
}

// A clock that was an hour ahead when messages went out keeps nobody waiting for an
// hour; one that is a little ahead of another replica's changes nothing.
func TestAClockThatWasAheadHoldsNobodyBack(t *testing.T) {
	t.Parallel()
	p := Pace{Messages: 2, Per: time.Minute, Group: 10 * time.Second}
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	ready := []Ready{{Session: "s", Due: now}}
	ahead := []time.Time{now.Add(time.Hour), now.Add(time.Hour + 20*time.Second)}
	pick, _ := p.Turn(ready, ahead, now)
	require.Equal(t, []int{0}, pick)
	// The next one counts what was sent since.
	pick, again := p.Turn(ready, p.Keep(append(ahead, now)), now.Add(time.Second))
	require.Empty(t, pick)
	require.Equal(t, now.Add(10*time.Second), again)

	pick, again = p.Turn(ready, []time.Time{now.Add(-5 * time.Second), now.Add(5 * time.Second)}, now)
	require.Empty(t, pick, "the bound holds over replicas whose clocks differ a little")
	require.Equal(t, now.Add(55*time.Second), again)
}

// Whatever comes, in no stretch of time are there more messages than the pace
// allows, nobody waits without need, and everything is told.
func TestPaceProperty(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		p := Pace{Messages: 1 + rnd.IntN(5), Per: time.Duration(1+rnd.IntN(120)) * time.Second, Group: time.Duration(rnd.IntN(30)) * time.Second}
		var arrivals []Ready
		for range 1 + rnd.IntN(200) {
			arrivals = append(arrivals, Ready{
				Session: string(rune('a' + rnd.IntN(4))), Urgent: rnd.IntN(10) == 0,
				Due: start.Add(time.Duration(rnd.IntN(300_000)) * time.Millisecond),
			})
		}
		slices.SortFunc(arrivals, func(a, b Ready) int { return a.Due.Compare(b.Due) })
		sent, sizes := simulate(t, p, slices.Clone(arrivals))
		total := 0
		for i, n := range sizes {
			total += n
			if j := i + p.Messages; j < len(sent) {
				require.GreaterOrEqual(t, sent[j].Sub(sent[i]), p.Per, "%+v", p)
			}
		}
		require.Equal(t, len(arrivals), total)
		require.Equal(t, arrivals[0].Due, sent[0], "the first message goes at once")
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	ix := &Interaction{Created: start, Expires: in(8 * time.Minute)}
	for text, want := range map[string]time.Duration{
		"0s": 0, "90s": 90 * time.Second, "50%": 4 * time.Minute, "5m or 50%": 4 * time.Minute, "1m or 50%": time.Minute,
	} {
		d := delay(t, text)
		require.Equal(t, want, d.of(ix), text)
		raw, err := d.MarshalText()
		require.NoError(t, err)
		require.Equal(t, want, delay(t, string(raw)).of(ix), text)
	}
	require.Equal(t, 5*time.Minute, delay(t, "50%").of(&Interaction{Created: start}), "half of ten minutes where there is no deadline")
	for _, text := range []string{"", "soon", "-1s", "0%", "100%", "50", "50% or 5m", "5m or 5m", "5m or", "9000h", "5%%"} {
		require.Error(t, new(Delay).UnmarshalText([]byte(text)), text)
	}
}

func TestCheckNamesTheField(t *testing.T) {
	t.Parallel()
	good := func() *Policy {
		return &Policy{Recipients: people("ada"), Routes: []Route{{Name: "all", Steps: []Step{{To: []string{"ada"}}}}}}
	}
	checked(t, good())
	minus, many := -1, 101
	long := hitl.Duration(1000 * time.Hour)
	for want, change := range map[string]func(p *Policy){
		"recipients[0].name: missing":                     func(p *Policy) { p.Recipients[0].Name = "" },
		`recipients[0].name: "a b" is not a token`:        func(p *Policy) { p.Recipients[0].Name = "a b" },
		`recipients[1].name: "ada" stands twice`:          func(p *Policy) { p.Recipients = append(p.Recipients, p.Recipients[0]) },
		"recipients[0].channels: missing":                 func(p *Policy) { p.Recipients[0].Channels = nil },
		`recipients[0].channels[1].channel: there is no`:  func(p *Policy) { p.Recipients[0].Channels[1].Channel = "fax" },
		`recipients[0].channels[1].channel: "push" stand`: func(p *Policy) { p.Recipients[0].Channels[1].Channel = "push" },
		"recipients[0].zone: must be a time zone":         func(p *Policy) { p.Recipients[0].Zone = "Mars/Olympus" },
		"recipients[0].quiet[0].days: must be of":         func(p *Policy) { p.Recipients[0].Quiet = []Window{{Days: []string{"Monday"}}} },
		"recipients[0].quiet: leaves no time at all":      func(p *Policy) { p.Recipients[0].Quiet = []Window{{}} },
		"recipients[0].messages: must be 0 to":            func(p *Policy) { p.Recipients[0].Messages = &minus },
		"recipients[0].messages: must be 0 to 100":        func(p *Policy) { p.Recipients[0].Messages = &many },
		"recipients[0].per: must be":                      func(p *Policy) { p.Recipients[0].Per = new(hitl.Duration) },
		"recipients[0].group: must be 0s to":              func(p *Policy) { p.Recipients[0].Group = &long },
		"recipients[0].digest: must be 1m to":             func(p *Policy) { p.Recipients[0].Digest = 1 },
		"routes: missing":                                 func(p *Policy) { p.Routes = nil },
		"routes[0].name: missing":                         func(p *Policy) { p.Routes[0].Name = "" },
		`routes[1].name: "all" stands twice`:              func(p *Policy) { p.Routes = append(p.Routes, p.Routes[0]) },
		"routes[0].steps: missing":                        func(p *Policy) { p.Routes[0].Steps = nil },
		"routes[0].steps[0].to: missing":                  func(p *Policy) { p.Routes[0].Steps[0].To = nil },
		`routes[0].steps[0].to: there is no recipient`:    func(p *Policy) { p.Routes[0].Steps[0].To = []string{"bob"} },
		"routes[0].repeat: must be 0 to":                  func(p *Policy) { p.Routes[0].Repeat = 21 },
		"routes[0].every: missing":                        func(p *Policy) { p.Routes[0].Repeat = 1 },
		"routes[0].match.zone: must be a time zone":       func(p *Policy) { p.Routes[0].Match.Zone = "Local" },
		"routes[0]: tells":                                func(p *Policy) { p.Recipients = people("ada"); tooMuch(&p.Routes[0]) },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			p := good()
			change(p)
			err := p.Check(func(s string) bool { return !strings.Contains(s, " ") }, []string{"push", "mail"})
			var fe *FieldError
			require.ErrorAs(t, err, &fe)
			require.ErrorContains(t, err, want)
		})
	}
}

func tooMuch(r *Route) {
	r.Repeat, r.Every = maxRepeat, Delay{Duration: time.Minute}
	for range maxSteps - 1 {
		r.Steps = append(r.Steps, r.Steps[0])
	}
}

// What follows a step that can tell nobody is due at its time: the next who was not to be
// told before. What would come after the deadline, reminders and deciders are no steps.
func TestWhatFollowsAStepThatTellsNobody(t *testing.T) {
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	list := []Delivery{
		{Step: "step1", Address: "policy", Due: at(0), Wait: time.Second},
		{Step: "step1", Address: "ada/a", Due: at(1)},
		{Step: "step1", Address: "bob/a", Due: at(1)},
		{Step: "step2", Address: "ada/a", Due: at(2), Again: true},
		{Step: StepReminder, Address: "dan/a", Due: at(3)},
		{Step: "step3", Address: "carol/a", Due: at(4)},
		{Step: "step3", Address: "carol/b", Due: at(4)},
		{Step: "step4", Address: "eve/a", Due: at(5)},
		{Step: "step5", Address: "fay/a", Due: at(60), Skip: tooLate},
	}
	for name, c := range map[string]struct {
		gone []string
		due  map[string]int // that differ, in minutes
		idle int
	}{
		"all can tell":           {nil, nil, 0},
		"one of two cannot":      {[]string{"ada/a"}, map[string]int{"carol/a": 2, "carol/b": 2}, 1}, // its repetition is a step as well
		"neither can":            {[]string{"ada/a", "bob/a"}, map[string]int{"carol/a": 1, "carol/b": 1}, 2},
		"the next one neither":   {[]string{"ada/a", "bob/a", "carol/a", "carol/b"}, map[string]int{"eve/a": 1}, 3},
		"one in the middle":      {[]string{"carol/a", "carol/b"}, map[string]int{"eve/a": 4}, 1},
		"the last one":           {[]string{"eve/a"}, nil, 1},
		"half of one before one": {[]string{"ada/a", "bob/a", "carol/b"}, map[string]int{"carol/a": 1}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			out, idle := Forward(list, func(d Delivery) bool { return d.Skip == "" && !slices.Contains(c.gone, d.Address) })
			require.Equal(t, c.idle, idle)
			for i, d := range out {
				want := list[i]
				if n, ok := c.due[d.Address]; ok {
					want.Due = at(n)
				}
				require.Equal(t, want, d)
			}
		})
	}
}
