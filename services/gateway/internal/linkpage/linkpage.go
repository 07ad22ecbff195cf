// Package linkpage is the page that the link of an alert leads to: what one
// interaction is about, and a form by which the person who was told decides it.
//
// Looking decides nothing, however it is done. Programs that follow the links of a
// mail, load what they lead to, run it and press what can be pressed find no script
// here, and a form that takes nothing without a word that has to be typed. The page
// works without JavaScript, and loads nothing but its own style sheet.
package linkpage

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
	"github.com/banksman/banksman/services/gateway/internal/ticket"
)

// contentPolicy: no script at all.
const contentPolicy = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const (
	// maxForm is the largest form that is taken, in bytes.
	maxForm = 16 << 10
	// sheet is the name of the style sheet; no token is called so.
	sheet = "page.css"
)

//go:embed page.html
var pageText string

//go:embed page.css
var sheetText []byte

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"words": words, "ordered": ordered, "joint": func(j string) string { return joints[j] }, "at": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
}).Parse(pageText))

// turned is a run of letters that are written from right to left.
var turned = regexp.MustCompile(`[\x{0590}-\x{08ff}\x{fb1d}-\x{fdff}\x{fe70}-\x{fefc}\x{10800}-\x{10fff}\x{1e800}-\x{1efff}]+`)

// ordered is a text in the order in which it is run: such letters do not turn the
// signs beside them around.
func ordered(text string) template.HTML {
	return template.HTML(turned.ReplaceAllString(template.HTMLEscapeString(text), "<bdi>$0</bdi>")) //nolint:gosec // escaped first
}

// Options wire a Page. All are required.
type Options struct {
	Tickets *ticket.Book
	Engine  api.Engine
	People  ticket.People
	Logger  *slog.Logger
}

// Page serves ticket.Page and what is below it.
type Page struct{ Options }

// view is what the page shows. Ix is nil where nothing may be told.
type view struct {
	Ix *wire.Interaction
	// Name is whose the link is.
	Name string
	// Problem is why nothing could be done; Good says that nothing went wrong.
	Problem string
	// Deny and Allow are what can be decided here; with neither there is no form.
	Deny, Allow bool
	// Review is the address at which somebody who signs in decides.
	Review string
	// Message is what was typed as a reason.
	Message string
}

func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex, nofollow, noarchive")
	token := strings.TrimPrefix(r.URL.Path, ticket.Page)
	if token == sheet {
		h.Set("Content-Type", "text/css; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(sheetText))
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		p.show(w, r, token, http.StatusOK, "", "")
	case http.MethodPost:
		p.take(w, r, token)
	default:
		h.Set("Allow", "GET, HEAD, POST")
		p.write(w, http.StatusMethodNotAllowed, view{Problem: "This address takes no such request."})
	}
}

// take is somebody's decision.
func (p *Page) take(w http.ResponseWriter, r *http.Request, token string) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		p.show(w, r, token, http.StatusBadRequest, "The form could not be read. Nothing was decided.", "")
		return
	}
	for _, values := range r.PostForm {
		// Said twice, it is nobody's to choose which was meant.
		if len(values) > 1 || !utf8.ValidString(values[0]) {
			p.show(w, r, token, http.StatusBadRequest, "The form could not be read. Nothing was decided.", "")
			return
		}
	}
	message := strings.TrimSpace(r.PostForm.Get("message"))
	u := ticket.Use{Token: token, Via: wire.TicketLink, From: socket.From(r)}
	u.Digest, u.Shown, u.Message = r.PostForm.Get("digest"), r.PostForm.Get("shown"), message
	switch strings.ToLower(strings.TrimSpace(r.PostForm.Get("word"))) {
	case "deny":
		u.Decision = hitl.VerbDeny
	case "approve":
		u.Decision = hitl.VerbAllow
		if message != "" {
			p.show(w, r, token, http.StatusBadRequest, "A reason goes with a denial only: take it away to approve. Nothing was decided.", message)
			return
		}
	default:
		p.show(w, r, token, http.StatusBadRequest, "Type the word of your decision. Nothing was decided.", message)
		return
	}
	if u.Shown == "" { // what was shown is said by every form of ours
		p.show(w, r, token, http.StatusBadRequest, "The form is not whole. Nothing was decided.", message)
		return
	}
	rec := p.Tickets.Decide(r.Context(), u)
	switch rec.Status {
	case hitl.Accepted, hitl.Duplicate:
		// To the page as it is now: loading that again sends nothing.
		http.Redirect(w, r, ticket.Page+token, http.StatusSeeOther)
	case hitl.AlreadyDecided, hitl.TooLate:
		p.show(w, r, token, http.StatusConflict, "It was decided before you. Your answer does not count.", message)
	case hitl.DigestMismatch:
		p.show(w, r, token, http.StatusConflict, "It has changed since you were shown it. Nothing was decided: read it again.", message)
	case hitl.Unavailable:
		p.show(w, r, token, http.StatusServiceUnavailable, "Your decision could not be stored now. Sending it again is safe.", message)
	case hitl.BadInput:
		p.show(w, r, token, http.StatusBadRequest, "That is not possible here. Nothing was decided.", message)
	default:
		p.show(w, r, token, http.StatusForbidden, "Nothing was decided: "+rec.Error+".", message)
	}
}

// show writes the page of a ticket as things are now.
func (p *Page) show(w http.ResponseWriter, r *http.Request, token string, status int, problem, message string) {
	v, code := p.look(r.Context(), token)
	if v.Problem == "" {
		v.Problem = problem
	}
	v.Message = message
	p.write(w, max(status, code), v)
}

const unknownLink = "This link is unknown, or too old. Sign in to see what waits."

func (p *Page) look(ctx context.Context, token string) (view, int) {
	select {
	case <-p.Engine.Ready():
	default:
		return view{Problem: "This server is starting. Load the page again in a moment."}, http.StatusServiceUnavailable
	}
	away := view{Problem: "This cannot be looked up now. Load the page again in a moment."}
	t, err := p.Tickets.Read(ctx, token)
	switch {
	case errors.Is(err, ticket.ErrUnknown):
		return view{Problem: unknownLink}, http.StatusNotFound
	case err != nil:
		p.Logger.Warn("ticket not read", "error", err)
		return away, http.StatusServiceUnavailable
	case t.Via != wire.TicketLink:
		return view{Problem: unknownLink}, http.StatusNotFound
	}
	who, may, err := p.People.Who(ctx, t.People[0])
	if err != nil {
		p.Logger.Warn("rights not looked up", "error", err)
		return away, http.StatusServiceUnavailable
	}
	ix, err := p.Engine.Interaction(ctx, t.Key)
	if err != nil {
		if errors.Is(err, api.ErrNotFound) {
			return view{Problem: "What this link was about is not on record any more."}, http.StatusNotFound
		}
		p.Logger.Warn("interaction not read", "interaction", t.Key, "error", err)
		return away, http.StatusServiceUnavailable
	}
	// Detail follows the right to decide, as it is now.
	if _, ok := may.Decides(ix.Kind, ix.Tenant, ix.ProjectID); !ok {
		return view{Problem: unknownLink}, http.StatusNotFound
	}
	v := view{Ix: ix, Name: who.Name, Review: "/#/i/" + t.Key}
	if v.Name == "" {
		v.Name = who.ID
	}
	if ix.State != wire.StatePending {
		ix.Body = nil // how it ended is all that is left to say
		return v, http.StatusOK
	}
	switch {
	case !p.Tickets.Good(t):
		v.Problem, ix.Body = "This link was used, or its time is over. Sign in to decide.", nil
	case ix.Digest != t.Digest:
		v.Problem, ix.Body = "This is not the request any more that the link was made for. Sign in to decide.", nil
	default:
		can := ticket.Decisions(t.Via, ix)
		v.Deny, v.Allow = slices.Contains(can, hitl.VerbDeny), slices.Contains(can, hitl.VerbAllow)
	}
	return v, http.StatusOK
}

func (p *Page) write(w http.ResponseWriter, status int, v view) {
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		p.Logger.Error("the page of a link cannot be made", "error", err)
		http.Error(w, "This page cannot be made now.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // fails where nobody reads it
}

// joints tells how a part of a command comes after the one before.
var joints = map[string]string{
	"first":      "first",
	"and":        "then, if that worked",
	"or":         "only if that failed",
	"then":       "then, in any case",
	"pipe":       "fed with its output",
	"background": "in the background",
	"inside":     "runs before it, as a part of it",
	"loop":       "again and again",
	"branch":     "if it comes to that",
	"function":   "when its function is called",
}

// words tells how it ended, for people.
func words(ix *wire.Interaction) string {
	d := ix.Decision
	by := ""
	if d != nil && d.Principal.Kind != "system" && d.Principal.Kind != "asker" {
		name, _ := hitl.Visible(d.Principal.Name)
		if name == "" {
			name, _ = hitl.Visible(d.Principal.ID)
		}
		by = " by " + name
	}
	switch ix.Outcome {
	case hitl.Allowed:
		return "Approved" + by
	case hitl.Denied:
		return "Denied" + by
	case hitl.Answered, hitl.Clarify:
		return "Answered" + by
	case hitl.Dismissed:
		return "Closed without an answer" + by
	case hitl.Expired:
		return "Expired: nobody decided in time"
	case hitl.Cancelled:
		return "Withdrawn by the agent"
	case hitl.Orphaned:
		return "Over: the agent that asked is gone"
	}
	return "Refused before anybody was asked"
}
