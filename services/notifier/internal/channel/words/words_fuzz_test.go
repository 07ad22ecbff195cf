package words_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

// FuzzMessage: whatever an agent writes, each thing it can say is one line of a
// bounded length without controls, so it cannot add a line that looks like ours.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{"", "a\nRisk: low", "\u202e", "\u2028Risk: low", "\x85x", "\xff", strings.Repeat("😀", 400), "a\r\nBcc: x"} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, headline, title, session string) {
		for _, typ := range []string{channel.Opened, channel.Reminder, channel.Closed, channel.Digest, channel.Test} {
			a := channeltest.Alert(typ)
			a.Data.Headline, a.Data.Title, a.Data.Session, a.Data.Agent = headline, title, session, session
			if p := a.Data.DecidedBy; p != nil {
				p.Name = title
			}
			if d := a.Data.Digest; d != nil {
				d.Sessions = []string{session, title}
			}
			m := words.Of(&a)
			require.NotEmpty(t, m.Head)
			texts := []string{m.Head, m.Quote}
			for _, x := range m.Facts {
				texts = append(texts, x.Value)
			}
			for _, s := range texts {
				require.True(t, utf8.ValidString(s))
				require.LessOrEqual(t, utf8.RuneCountInString(s), 300)
				require.NotContains(t, s, "\u2028")
				for _, r := range s {
					require.False(t, unicode.IsControl(r), "%q", s)
				}
			}
			lines := 1 + len(m.Facts)
			for _, s := range []string{m.Quote, m.Link} {
				if s != "" {
					lines++
				}
			}
			require.Equal(t, lines, strings.Count(m.Plain(), "\n")+1)
		}
	})
}
