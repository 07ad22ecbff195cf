package telegram

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/press"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

const (
	// pollFor is how long Telegram holds a question for what was pressed, in seconds;
	// shorter than what a call may take.
	pollFor  = 7
	maxPolls = 5 // presses of one answer
	// pauses after what went wrong, or while another replica listens
	shortPause = time.Second
	longPause  = 15 * time.Second
	maxAnswer  = 200 // characters that are shown to whoever pressed
	// holdLimit bounds the taking of a lease. A press takes at most web.Timeout and what
	// the gateway is given besides.
	holdLimit = 5 * time.Second
	// maxAge is how old a press may be.
	maxAge = 10 * time.Minute
)

// button is one below a message. Its data have at most 64 bytes, which a decision and
// the token of a ticket fit.
type button struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

type keyboard struct {
	Rows [][]button `json:"inline_keyboard"`
}

// buttons are those of a message; nil: it has none, or loses those it had.
func buttons(a *channel.Alert) *keyboard {
	if a.Act == nil {
		return nil
	}
	row := []button{{"Deny", hitl.VerbDeny + ":" + a.Act.Token}}
	if a.Act.Allow {
		row = append(row, button{"Approve", hitl.VerbAllow + ":" + a.Act.Token})
	}
	return &keyboard{[][]button{row}}
}

type update struct {
	ID    int64 `json:"update_id"`
	Press *struct {
		ID   string
		From struct{ ID int64 }
		Data string
		// Message is the one below which was pressed. Date is when it was sent, in
		// seconds since 1970: a press itself has no time.
		Message struct{ Date int64 }
	} `json:"callback_query"`
}

// tooOld is told to whoever pressed what is not taken for its age.
const tooOld = "This was not taken: it may have been pressed long ago. Press again if it still stands."

// Listen takes what is pressed below the bot's messages, until ctx ends. Telegram keeps
// what nobody has asked for, for a day, and lets one at a time ask.
//
//	https://core.telegram.org/bots/api#getupdates
//	https://core.telegram.org/bots/api#answercallbackquery
func (c *Channel) Listen(ctx context.Context, d *press.Desk) error {
	var offset int64
	// A press that is told was made after seen, when nothing was left that had been made
	// before, and after its message was sent.
	var seen time.Time
	for ctx.Err() == nil {
		if !hold(ctx, d) {
			wait(ctx, shortPause)
			continue
		}
		asked := time.Now()
		list, err := c.poll(ctx, offset)
		if err != nil {
			if ctx.Err() == nil {
				d.Logger.Warn("what was pressed cannot be asked for; trying again", "error", err)
			}
			wait(ctx, longPause)
			continue
		}
		taken := 0
		for _, u := range list {
			// What is left goes to whoever asks next.
			if !hold(ctx, d) {
				break
			}
			taken++
			if p := u.Press; p != nil {
				decision, token, _ := strings.Cut(p.Data, ":")
				if time.Since(seen) > maxAge && time.Since(time.Unix(p.Message.Date, 0)) > maxAge {
					c.answer(ctx, d, p.ID, tooOld)
					offset = u.ID + 1
					continue
				}
				said := d.Take(ctx, press.Press{Account: strconv.FormatInt(p.From.ID, 10), Token: token, Decision: decision})
				c.answer(ctx, d, p.ID, said)
			}
			// What was taken is not told again from the next question on.
			offset = u.ID + 1
		}
		if taken == len(list) && taken < maxPolls {
			seen = asked
		}
	}
	return nil
}

// hold keeps or takes what only one replica may have, for the next question or press: with
// its own limit each takes less than press.HoldFor.
func hold(ctx context.Context, d *press.Desk) bool {
	ctx, cancel := context.WithTimeout(ctx, holdLimit)
	defer cancel()
	mine, err := d.Hold(ctx)
	return err == nil && mine
}

func (c *Channel) poll(ctx context.Context, offset int64) ([]update, error) {
	resp, err := c.client.JSON(ctx, http.MethodPost, c.url+"/getUpdates", nil, map[string]any{
		"offset": offset, "timeout": pollFor, "limit": maxPolls, "allowed_updates": []string{"callback_query"},
	})
	if err != nil {
		return nil, err
	}
	if p := resp.Problem(); p != nil {
		if resp.Status == http.StatusConflict {
			p.Text += ": another program asks for this bot's updates, or it has a webhook"
		}
		return nil, p
	}
	return updates(resp)
}

// updates reads an answer of Telegram. Who pressed what is in it, or it is none.
func updates(resp *web.Response) ([]update, error) {
	var answer struct {
		OK     bool
		Result []update
	}
	if !resp.Read(&answer) || !answer.OK {
		return nil, errors.New("no answer of Telegram")
	}
	return answer.Result, nil
}

// answer tells whoever pressed what came of it, and nobody else.
func (c *Channel) answer(ctx context.Context, d *press.Desk, id, said string) {
	resp, err := c.client.JSON(ctx, http.MethodPost, c.url+"/answerCallbackQuery", nil, map[string]any{
		"callback_query_id": id, "text": words.Cut(said, maxAnswer), "show_alert": true,
	})
	if err == nil {
		if p := resp.Problem(); p != nil {
			err = p
		}
	}
	if err != nil && ctx.Err() == nil {
		d.Logger.Info("a receipt did not reach whoever pressed", "error", err)
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
