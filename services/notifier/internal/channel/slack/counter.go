package slack

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/press"
)

// askAgain is the pause after Slack did not say which workspace the bot is of.
const askAgain = 15 * time.Second

var workspace = regexp.MustCompile(`^T[A-Z0-9]{1,30}$`)

// pressed is what Slack says of a press, by whichever road it came.
type pressed struct {
	press.Press
	channel string
	// team is the workspace that it was made in, and home the presser's own, which
	// Slack does not always say.
	team, home string
}

// readPress reads a payload of Slack; nil: it is something else of the app.
func readPress(payload []byte) (*pressed, error) {
	var p struct {
		Type string
		Team struct{ ID string }
		User struct {
			ID   string
			Team string `json:"team_id"`
		}
		Channel struct{ ID string }
		Actions []struct {
			Action string `json:"action_id"`
			Block  string `json:"block_id"`
			Value  string
		}
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	if p.Type != "block_actions" || len(p.Actions) != 1 || p.Actions[0].Block != "decide" {
		return nil, nil
	}
	a := p.Actions[0]
	return &pressed{press.Press{Account: p.User.ID, Token: a.Value, Decision: a.Action}, p.Channel.ID, p.Team.ID, p.User.Team}, nil
}

// counter takes what is pressed to the desk.
type counter struct {
	b     *Bot
	d     *press.Desk
	slots chan struct{} // one token for each press that is worked on
	known chan struct{} // closed when team is set
	wg    sync.WaitGroup

	mu   sync.Mutex
	team string // empty: not known yet
	over bool
}

// counter learns which workspace is the bot's, where nobody said so, until ctx ends.
// close belongs to whoever asked for it.
func (b *Bot) counter(ctx context.Context, d *press.Desk) *counter {
	c := &counter{b: b, d: d, slots: make(chan struct{}, maxPresses), known: make(chan struct{}), team: b.buttons.Team}
	if c.team != "" {
		close(c.known)
		return c
	}
	c.wg.Go(func() {
		said := ""
		for {
			team, err := b.home(ctx)
			if err == nil {
				c.mu.Lock()
				c.team = team
				c.mu.Unlock()
				close(c.known)
				return
			}
			if ctx.Err() == nil && err.Error() != said {
				said = err.Error()
				d.Logger.Error("Slack does not say which workspace the bot is of; until it does no press counts", "setting", "token", "error", err)
			}
			if !run.Pause(ctx, askAgain) {
				return
			}
		}
	})
	return c
}

// close lets nothing more in, and waits for what was taken.
func (c *counter) close() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.wg.Wait()
}

// home is the workspace of the bot's token.
//
//	https://docs.slack.dev/reference/methods/auth.test
func (b *Bot) home(ctx context.Context) (string, error) {
	resp, err := b.client.JSON(ctx, http.MethodPost, b.url+"/auth.test", b.head, struct{}{})
	if err != nil {
		return "", err
	}
	if p := resp.Problem(); p != nil {
		return "", p
	}
	var answer struct {
		OK    bool
		Error string
		Team  string `json:"team_id"`
	}
	if !resp.Read(&answer) || answer.OK && !workspace.MatchString(answer.Team) {
		return "", resp.Because(&channel.Problem{}, "no_answer_of_slack")
	}
	if !answer.OK {
		return "", resp.Because(&channel.Problem{Text: "Slack refused it"}, answer.Error)
	}
	return answer.Team, nil
}

// take works on a press and reports whether it does: not while there are too many, or
// while it is not known whose presses count. Slack waits three seconds only: it hears
// that the press has arrived, and whoever pressed hears what came of it. So what was
// taken is finished, also when ctx ends.
func (c *counter) take(ctx context.Context, p *pressed) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.team == "" {
		return false
	}
	select {
	case c.slots <- struct{}{}:
	default:
		return false
	}
	ours := p.team == c.team && (p.home == "" || p.home == c.team)
	ctx = context.WithoutCancel(ctx)
	c.wg.Go(func() {
		defer func() { <-c.slots }()
		said := "Nothing was decided: only people of the bot's own workspace decide here."
		if ours {
			said = c.d.Take(ctx, p.Press)
		} else {
			c.d.Logger.Warn("a press from another workspace", "account", p.Account, "workspace", p.team, "home", p.home)
		}
		if _, _, err := c.b.call(ctx, "chat.postEphemeral", message{Channel: p.channel, User: p.Account, Text: escape(said)}); err != nil {
			c.d.Logger.Info("a receipt did not reach whoever pressed", "error", err)
		}
	})
	return true
}
