package subject_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/subject"
)

func TestToken(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 65)
	for in, want := range map[string]string{
		"agents":                   "agents",
		"A-z_09":                   "A-z_09",
		strings.Repeat("a", 64):    strings.Repeat("a", 64),
		"":                         "",
		"h_x":                      "",
		"a b":                      "",
		"a.b":                      "",
		"*":                        "",
		">":                        "",
		"ä":                        "",
		"a\x00":                    "",
		long:                       "",
		"../../etc/passwd":         "",
		strings.Repeat("x", 4_000): "",
	} {
		got := subject.Token(in)
		require.True(t, subject.ValidToken(got), in)
		if want == "" {
			require.Regexp(t, `^h_[A-Za-z0-9_-]{43}$`, got)
			require.NotEqual(t, subject.Token(in+"x"), got)
			continue
		}
		require.Equal(t, want, got)
	}
	require.Equal(t, "h_47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU", subject.Token(""), "the hash of nothing, fixed")
	require.NotEqual(t, subject.Token("a b"), subject.Token(subject.Token("a b")), "a hash does not stand for itself")
	for _, bad := range []string{"", long, "a.b", "a b", "ä", "*", ">", "$JS"} {
		require.False(t, subject.ValidToken(bad), bad)
	}
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	r, s := subject.NewRef("t", "o", "i"), subject.NewSession("t", "o", "s")
	for want, got := range map[string]string{
		"hitl.req.t.o.i":              subject.Request(r),
		"hitl.cxl.t.o.i":              subject.Withdraw(r),
		"hitl.dec.t.o.i":              subject.Decision(r),
		"hitl.inbox.t.o.i":            subject.Inbox(r),
		"hitl.ixe.t.o.s.i.open":       subject.Event(r, "s", subject.Open),
		"hitl.ixe.t.o.s.i.closed":     subject.Event(r, "s", subject.Closed),
		"hitl.ack.t.o.i.applied":      subject.Ack(r, "applied"),
		"hitl.evt.t.o.s":              subject.Transcript(s),
		"hitl.ses.t.o.s":              subject.State(s),
		"hitl.live.t.o.s":             subject.Live(s),
		"hitl.cmd.t.o.s":              subject.Command(s),
		"hitl.sgw.t.o.s":              subject.GatewayState(s),
		"hitl.beat.t.o.w":             subject.Beat("t", "o", "w"),
		"hitl.work.t.p":               subject.Work("t", "p"),
		"hitl.svc.t.c.ask":            subject.Service("t", "c", "ask"),
		"hitl.feed.c.t":               subject.Feed("c", "t"),
		"hitl.seen.t.o.i":             subject.Seen(r),
		"t-p":                         subject.WorkConsumer("t", "p"),
		"$JS.API.DIRECT.GET.S.hitl.x": subject.Direct("S", "hitl.x"),
	} {
		require.Equal(t, want, got)
	}
	// No name can reach into another one's subjects.
	require.Regexp(t, `^hitl\.req\.h_[^.]+\.h_[^.]+\.h_[^.]+$`, subject.Request(subject.NewRef("t.o", "*", ">")))
	require.Regexp(t, `^hitl\.evt\.h_[^.]+\.h_[^.]+\.h_[^.]+$`, subject.Transcript(subject.NewSession("", "a b", "ä")))
}

func TestParse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]subject.Parsed{
		"hitl.req.t.o.i":          {Kind: "req", Tenant: "t", Owner: "o", ID: "i"},
		"hitl.cxl.t.o.i":          {Kind: "cxl", Tenant: "t", Owner: "o", ID: "i"},
		"hitl.dec.t.o.i":          {Kind: "dec", Tenant: "t", Owner: "o", ID: "i"},
		"hitl.ixe.t.o.s.i.open":   {Kind: "ixe", Tenant: "t", Owner: "o", Session: "s", ID: "i", Tail: "open"},
		"hitl.ixe.t.o.s.i.closed": {Kind: "ixe", Tenant: "t", Owner: "o", Session: "s", ID: "i", Tail: "closed"},
		"hitl.ack.t.o.i.applied":  {Kind: "ack", Tenant: "t", Owner: "o", ID: "i", Tail: "applied"},
		"hitl.evt.t.o.s":          {Kind: "evt", Tenant: "t", Owner: "o", Session: "s"},
		"hitl.ses.t.o.s":          {Kind: "ses", Tenant: "t", Owner: "o", Session: "s"},
		"hitl.sgw.t.o.s":          {Kind: "sgw", Tenant: "t", Owner: "o", Session: "s"},
		"hitl.live.t.o.s":         {Kind: "live", Tenant: "t", Owner: "o", Session: "s"},
		"hitl.cmd.t.o.s":          {Kind: "cmd", Tenant: "t", Owner: "o", Session: "s"},
		"hitl.beat.t.o.w":         {Kind: "beat", Tenant: "t", Owner: "o", ID: "w"},
		"hitl.work.t.p":           {Kind: "work", Tenant: "t", Owner: "p"},
	} {
		got, err := subject.Parse(in)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, subject.Ref{Tenant: want.Tenant, Owner: want.Owner, ID: want.ID}, got.Ref())
		require.Equal(t, subject.Session{Tenant: want.Tenant, Owner: want.Owner, ID: want.Session}, got.SessionRef())
	}
	for _, bad := range []string{
		"", "hitl", "hitl.req", "hitl.req.t.o", "hitl.req.t.o.i.x", "hitl.req.t.o.", "hitl.req..o.i", "hitl.req.t.o.*",
		"hitl.req.t.o.>", "hitl.req.t.o.a b", "hitl.req.t.o.ä", "hitl.nope.t.o.i", "other.req.t.o.i", "HITL.req.t.o.i",
		"hitl.ixe.t.o.s.i.opened", "hitl.ixe.t.o.s.i", "hitl.work.t.p.x", "$JS.API.STREAM.INFO", "hitl.inbox.t.o.i",
		"hitl.req.t.o." + strings.Repeat("a", 65), "hitl.req.t.o." + strings.Repeat("a", 4_000), strings.Repeat(".", 1_000),
	} {
		_, err := subject.Parse(bad)
		require.Error(t, err, bad)
	}
}

func FuzzParseSubject(f *testing.F) {
	for _, s := range []string{
		"", "hitl.req.t.o.i", "hitl.cxl.t.o.i", "hitl.dec.t.o.h_x", "hitl.ixe.t.o.s.i.open", "hitl.ixe.t.o.s.i.closed", "hitl.ack.t.o.i.applied",
		"hitl.evt.t.o.s", "hitl.ses.t.o.s", "hitl.sgw.t.o.s", "hitl.live.t.o.s", "hitl.cmd.t.o.s", "hitl.beat.t.o.w", "hitl.work.t.p",
		"hitl.req.t.o.>", "hitl.req.*.*.*", "hitl.req...", "hitl.req.t.o.\x00", strings.Repeat("hitl.", 100),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		p, err := subject.Parse(in)
		if err != nil {
			require.Equal(t, subject.Parsed{}, p)
			return
		}
		// What parses is exactly what the builders build.
		var built string
		switch p.Kind {
		case "req":
			built = subject.Request(p.Ref())
		case "cxl":
			built = subject.Withdraw(p.Ref())
		case "dec":
			built = subject.Decision(p.Ref())
		case "ixe":
			built = subject.Event(p.Ref(), p.Session, p.Tail)
		case "ack":
			built = subject.Ack(p.Ref(), p.Tail)
		case "evt":
			built = subject.Transcript(p.SessionRef())
		case "ses":
			built = subject.State(p.SessionRef())
		case "sgw":
			built = subject.GatewayState(p.SessionRef())
		case "live":
			built = subject.Live(p.SessionRef())
		case "cmd":
			built = subject.Command(p.SessionRef())
		case "beat":
			built = "hitl.beat." + p.Ref().String()
		case "work":
			built = "hitl.work." + p.Tenant + "." + p.Owner
		}
		require.Equal(t, in, built)
		for _, tok := range []string{p.Tenant, p.Owner} {
			require.True(t, subject.ValidToken(tok))
		}
	})
}

func FuzzToken(f *testing.F) {
	for _, s := range []string{"", "a", "h_", "h_x", "A_b-9", "a.b", "*", ">", "a b", "\x00", "ä", "\xff", "t.o.i", "..", "a.b.c.d", strings.Repeat("a", 64), strings.Repeat("a", 65)} {
		f.Add(s, "agents")
		f.Add("agents", s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ta, tb := subject.Token(a), subject.Token(b)
		require.True(t, subject.ValidToken(ta))
		require.Equal(t, a == b, ta == tb, "two names never share a token")
		ref := subject.NewRef(a, b, "i")
		back, ok := subject.ParseRef(ref.String())
		require.True(t, ok)
		require.Equal(t, ref, back)
		if ref, ok := subject.ParseRef(a); ok {
			require.Equal(t, a, ref.String())
		}
		// Names made of two parts are as different as the parts.
		for _, part := range strings.Split(subject.WorkConsumer(a, b), "-") {
			require.True(t, part == "" || subject.ValidToken(part))
		}
		if a != b {
			require.NotEqual(t, subject.WorkConsumer(a, b), subject.WorkConsumer(b, a))
			require.NotEqual(t, subject.Service(a, b, "ask"), subject.Service(b, a, "ask"))
		}
		for _, built := range []string{subject.Request(ref), subject.Ack(ref, "applied"), subject.State(subject.NewSession(a, b, "s")), subject.Work(a, b), subject.Beat(a, b, "w")} {
			_, err := subject.Parse(built)
			require.NoError(t, err)
		}
	})
}
