package slack

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/press"
)

const (
	// maxAge is how old a signed request may be: an older one may be a recording.
	maxAge = 5 * time.Minute
	// maxPayload bounds what is read; a payload repeats the message.
	maxPayload  = 1 << 20
	listenAgain = 2 * time.Second
	maxPresses  = 16 // that are worked on at a time
	maxReads    = 64 // requests whose bodies are read at a time
	// Path is where Slack sends what was pressed.
	Path = "/slack"
)

// Buttons is how presses come in.
type Buttons struct {
	// Secret is the app's signing secret; Listen is where Slack's requests arrive.
	Secret, Listen string
	// AppToken is the app's own token, by which presses come over a socket that the
	// notifier opens, in place of both.
	AppToken string
	// Team is the id of the workspace whose people may press; empty: the bot's own.
	Team  string
	Clock func() time.Time
}

// check is a *channel.FieldError where something does not fit.
func (b *Buttons) check() error {
	wrong := func(field, problem string) error { return &channel.FieldError{Field: field, Problem: problem} }
	switch {
	case (b.Secret == "") != (b.Listen == ""):
		return wrong("listen", "and signing_secret belong together: where Slack's requests arrive, and how they are known")
	case b.AppToken != "" && b.Listen != "":
		return wrong("app_token", "stands beside signing_secret and listen: presses come by a socket or by Slack's requests")
	case b.AppToken != "" && !strings.HasPrefix(b.AppToken, "xapp-"):
		return wrong("app_token", "is not the token of an app (xapp-...)")
	case b.Team != "" && b.Listen == "" && b.AppToken == "":
		return wrong("team", "says whose presses count, and none arrive here")
	case b.Team != "" && !workspace.MatchString(b.Team):
		return wrong("team", "is not the id of a workspace (T...)")
	}
	if b.Listen != "" {
		if _, _, err := net.SplitHostPort(b.Listen); err != nil {
			return wrong("listen", "not an address such as 127.0.0.1:8090")
		}
	}
	return nil
}

type element struct {
	Type    string   `json:"type"`
	Action  string   `json:"action_id"`
	Text    object   `json:"text"`
	Value   string   `json:"value"`
	Style   string   `json:"style,omitempty"`
	Confirm *confirm `json:"confirm,omitempty"`
}

type confirm struct {
	Title   object `json:"title"`
	Text    object `json:"text"`
	Confirm object `json:"confirm"`
	Deny    object `json:"deny"`
}

type actions struct {
	Type     string    `json:"type"`
	ID       string    `json:"block_id"`
	Elements []element `json:"elements"`
}

// buttons are the blocks by which one decides; nil: there are none. What is asked
// stands above a button to approve.
func buttons(a *channel.Alert) []any {
	if a.Act == nil {
		return nil
	}
	var out []any
	row := actions{Type: "actions", ID: "decide", Elements: []element{{Type: "button", Action: hitl.VerbDeny, Text: plain("Deny"), Value: a.Act.Token, Style: "danger"}}}
	if a.Act.Allow {
		text := plain("What is asked:\n" + a.Act.Text)
		out = append(out, block{Type: "section", Text: &text})
		row.Elements = append(row.Elements, element{
			Type: "button", Action: hitl.VerbAllow, Text: plain("Approve"), Value: a.Act.Token,
			Confirm: &confirm{plain("Approve?"), plain("The agent goes on with what stands above."), plain("Approve"), plain("Back")},
		})
	}
	return append(out, row)
}

// Listen takes what is pressed, until ctx ends.
//
//	https://docs.slack.dev/authentication/verifying-requests-from-slack
//	https://docs.slack.dev/reference/interaction-payloads/block_actions-payload
func (b *Bot) Listen(ctx context.Context, d *press.Desk) error {
	if b.buttons.AppToken != "" {
		return b.socket(ctx, d)
	}
	var lc net.ListenConfig
	said := ""
	for {
		l, err := lc.Listen(ctx, "tcp", b.buttons.Listen)
		if err == nil {
			err = b.serve(ctx, l, d)
		}
		if err == nil || ctx.Err() != nil {
			return nil
		}
		// The other channels go on.
		if err.Error() != said {
			said = err.Error()
			d.Logger.Error("what is pressed cannot arrive, trying again; no button works until it does", "setting", "listen", "error", err)
		}
		if !run.Pause(ctx, listenAgain) {
			return nil
		}
	}
}

// serve closes l.
func (b *Bot) serve(ctx context.Context, l net.Listener, d *press.Desk) error {
	asking, cancel := context.WithCancel(ctx)
	c := b.counter(asking, d)
	defer c.close()
	defer cancel() // before it, which waits for who asks Slack
	reads := make(chan struct{}, maxReads)
	srv := &http.Server{
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if status := b.refuse(r); status != 0 {
				w.WriteHeader(status)
				return
			}
			// Strangers cannot fill the memory.
			select {
			case reads <- struct{}{}:
			default:
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			p, status := b.read(r)
			<-reads
			if p != nil && !c.take(ctx, p) {
				status = http.StatusServiceUnavailable
			}
			w.WriteHeader(status)
		}),
	}
	stop := context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if srv.Shutdown(end) != nil {
			_ = srv.Close()
		}
	})
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// refuse is the status of what is none of Slack's by its head alone; 0: it may be one.
func (b *Bot) refuse(r *http.Request) int {
	if r.Method != http.MethodPost || r.URL.Path != Path {
		return http.StatusNotFound
	}
	if r.ContentLength > maxPayload {
		return http.StatusRequestEntityTooLarge
	}
	sec, err := strconv.ParseInt(r.Header.Get("X-Slack-Request-Timestamp"), 10, 64)
	if err != nil || b.buttons.Clock().Sub(time.Unix(sec, 0)).Abs() > maxAge || len(r.Header.Get("X-Slack-Signature")) != len("v0=")+2*sha256.Size {
		return http.StatusUnauthorized
	}
	return 0
}

// read checks a request that was not refused and reads it; nil: it is none of Slack's,
// and the status says so.
func (b *Bot) read(r *http.Request) (*pressed, int) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxPayload+1))
	if err != nil || len(body) > maxPayload {
		return nil, http.StatusRequestEntityTooLarge
	}
	stamp := r.Header.Get("X-Slack-Request-Timestamp")
	mac := hmac.New(sha256.New, []byte(b.buttons.Secret))
	mac.Write([]byte("v0:" + stamp + ":"))
	mac.Write(body)
	if want := "v0=" + hex.EncodeToString(mac.Sum(nil)); !hmac.Equal([]byte(want), []byte(r.Header.Get("X-Slack-Signature"))) {
		return nil, http.StatusUnauthorized
	}
	form, err := url.ParseQuery(string(body))
	var p *pressed
	if err == nil {
		p, err = readPress([]byte(form.Get("payload")))
	}
	if err != nil {
		return nil, http.StatusBadRequest
	}
	return p, http.StatusOK
}
