package notifier_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// chat is a double of Slack that shows what stands in its conversations now.
type chat struct {
	*httptest.Server
	mu       sync.Mutex
	messages map[string]string // by "conversation ts"
	order    []string
	changes  int
	// refuse makes it refuse changes of a message.
	refuse string
}

func newChat(t *testing.T) *chat {
	t.Helper()
	c := &chat{messages: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Channel, TS, Text string
			Blocks            json.RawMessage
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || r.Header.Get("Authorization") != "Bearer xoxb-1" {
			t.Errorf("not a call: %v", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		switch r.URL.Path {
		case "/chat.postMessage":
			m.TS = strconv.Itoa(len(c.order) + 1)
			c.order = append(c.order, m.Channel+" "+m.TS)
		case "/chat.update":
			c.changes++
			if key := m.Channel + " " + m.TS; key == c.refuse || c.messages[key] == "" {
				fmt.Fprint(w, `{"ok":false,"error":"message_not_found"}`)
				return
			}
		default:
			t.Errorf("a wrong call: %s", r.URL)
		}
		c.messages[m.Channel+" "+m.TS] = m.Text + " " + string(m.Blocks)
		fmt.Fprintf(w, `{"ok":true,"channel":%q,"ts":%q}`, m.Channel, m.TS)
	}))
	t.Cleanup(c.Close)
	return c
}

// shows waits until a message has all the parts.
func (c *chat) shows(t *testing.T, message string, parts ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, p := range parts {
			if !strings.Contains(c.messages[message], p) {
				return false
			}
		}
		return true
	}, patience, tick, "%s does not say %q", message, parts)
}

// all returns the messages in the order in which they came, and what one says now.
func (c *chat) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order)
}

func (c *chat) says(message string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.messages[message]
}

func (c *chat) count() (messages, changes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.order), c.changes
}

// config tells ada and bob by Slack; more goes to both recipients.
func (c *chat) config(more string) string {
	return fmt.Sprintf(`channels:
  - {name: chat, type: slack, token: xoxb-1, url: %q, allow_private: true}
recipients:
  - {name: ada, channels: [{channel: chat, to: C0ADA}]%[2]s}
  - {name: bob, channels: [{channel: chat, to: C0BOB}]%[2]s}
routes:
  - name: all
    steps: [{after: 1ms, to: [ada, bob]}]
    remind: [50%%]
`, c.URL, more)
}

func (c *chat) options(t *testing.T, more string) notifier.Options {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notifier.yaml")
	require.NoError(t, os.WriteFile(file, []byte(c.config(more)), 0o600))
	cfg, err := notifier.LoadConfig(file)
	require.NoError(t, err)
	return notifier.Options{Config: cfg}
}

// On a decision each message that told somebody, reminders among them, is changed
// to the outcome with who and when. Nothing new is sent, and quiet hours do not
// leave an old button standing.
func TestB67_MessagesAreChangedToTheOutcomeEverywhere(t *testing.T) {
	t.Parallel()
	b, chat := newBench(t), newChat(t)
	noon := time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)
	clk := newClock(noon)
	o := chat.options(t, `, messages: 0, quiet: [{from: "12:40", to: "11:00"}], bypass: []`)
	o.Clock = clk
	b.notify(t, o)
	ref := newRef(1)
	s := summary(ref, noon)
	expires := noon.Add(time.Hour)
	s.ExpiresAt = &expires
	b.open(t, ref, s)
	for _, who := range []string{"ada", "bob"} {
		b.awaitAt(t, ref, "step1", who+"/chat", ledger.Planned)
	}
	clk.move(time.Minute)
	for _, who := range []string{"ada", "bob"} {
		b.awaitAt(t, ref, "step1", who+"/chat", ledger.Sent)
	}
	clk.move(30 * time.Minute)
	for _, who := range []string{"ada", "bob"} {
		b.awaitAt(t, ref, "reminder", who+"/chat", ledger.Sent)
	}
	clk.move(15 * time.Minute) // 12:46: quiet
	b.end(t, ref, s, hitl.Denied, ada)
	for _, who := range []string{"ada", "bob"} {
		r := b.awaitAt(t, ref, ledger.StepClosed, who+"/chat", ledger.Sent)
		require.Len(t, r.Earlier, 2)
	}
	messages, changes := chat.count()
	require.Equal(t, 4, messages, "nothing new")
	require.Equal(t, 4, changes)
	order := chat.all()
	for _, message := range order {
		chat.shows(t, message, "Denied by Ada: build-7 wants to use Bash", "1 Mar 2026, 14:02 UTC")
		require.NotContains(t, chat.says(message), "Still waiting")
	}
	require.Contains(t, order[0]+order[1], "C0ADA")
	require.Contains(t, order[0]+order[1], "C0BOB")
}

// A message that somebody has deleted does not keep the others from being
// changed.
func TestB67_DeletedMessageLeavesTheOthersToChange(t *testing.T) {
	t.Parallel()
	b, chat := newBench(t), newChat(t)
	clk := newClock(time.Now())
	o := chat.options(t, ", messages: 0")
	o.Clock = clk
	b.notify(t, o)
	ref := newRef(1)
	s := summary(ref, clk.Now())
	expires := clk.Now().Add(time.Hour)
	s.ExpiresAt = &expires
	b.open(t, ref, s)
	b.awaitAt(t, ref, "step1", "ada/chat", ledger.Planned)
	clk.move(time.Second)
	first := b.awaitAt(t, ref, "step1", "ada/chat", ledger.Sent).Receipt.Ref
	b.awaitAt(t, ref, "step1", "bob/chat", ledger.Sent)
	clk.move(31 * time.Minute)
	second := b.awaitAt(t, ref, "reminder", "ada/chat", ledger.Sent).Receipt.Ref
	b.awaitAt(t, ref, "reminder", "bob/chat", ledger.Sent)
	chat.mu.Lock()
	chat.refuse = first
	chat.mu.Unlock()
	b.end(t, ref, s, hitl.Allowed, ada)
	chat.shows(t, second, "Approved by Ada")
	b.awaitAt(t, ref, ledger.StepClosed, "ada/chat", ledger.Sent)
	require.NotContains(t, chat.says(first), "Approved")
}

// The replica that sent a message is killed; another one changes it.
func TestB67_AnotherReplicaChangesTheMessageAfterKill9(t *testing.T) {
	t.Parallel()
	for _, paced := range []string{", messages: 0", ", messages: 20"} {
		t.Run(paced[2:], func(t *testing.T) {
			t.Parallel()
			b, chat := newBench(t), newChat(t)
			kill := b.child(t, chat.config(paced))
			ref := newRef(1)
			s := summary(ref, time.Now())
			b.open(t, ref, s)
			for _, who := range []string{"ada", "bob"} {
				b.awaitAt(t, ref, "step1", who+"/chat", ledger.Sent)
			}
			kill()
			b.end(t, ref, s, hitl.Allowed, ada)
			b.notify(t, chat.options(t, paced))
			for _, message := range chat.all() {
				chat.shows(t, message, "Approved by Ada", "1 Mar 2026, 14:02 UTC")
			}
			for _, who := range []string{"ada", "bob"} {
				r := b.awaitAt(t, ref, ledger.StepClosed, who+"/chat", ledger.Sent)
				require.Equal(t, "ok", r.Receipt.Said)
			}
			messages, _ := chat.count()
			require.Equal(t, 2, messages, "nothing new")
		})
	}
}
