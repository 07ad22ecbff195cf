package auth

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/typed"
)

// managing is what the confirmation of a terminal adds to its name.
const managing = ", to manage people and tokens"

// CLIRequest is a terminal that waits to be confirmed.
type CLIRequest = wire.CLIRequest

type cliRecord struct {
	V int `json:"v"`
	CLIRequest
	PollHash string          `json:"poll_hash"`
	Manage   bool            `json:"manage,omitempty"`
	Allowed  *bool           `json:"allowed,omitempty"`
	By       *hitl.Principal `json:"by,omitempty"`
	Used     bool            `json:"used,omitempty"` // it is about to be signed in
}

// RequestCLI registers a terminal. poll is the secret with which it asks how
// its request stands; name is what the confirmation shows. With manage the
// terminal may manage people and tokens, for a shorter time, and the confirmation
// says so.
func (s *Store) RequestCLI(ctx context.Context, name string, manage bool) (req CLIRequest, poll string, err error) {
	waiting, err := s.WaitingCLI(ctx)
	if err != nil {
		return req, "", err
	}
	if len(waiting) >= maxWaiting {
		return req, "", ErrBusy
	}
	name = displayName(name, "a terminal")
	if manage {
		name += managing
	}
	secret := newToken()
	now := s.now().UTC()
	req = CLIRequest{Code: typed.New(), Name: name, RequestedAt: now, ExpiresAt: now.Add(CLITTL)}
	// The code must not be taken; by chance it never is.
	err = s.create(ctx, cliKey+req.Code, cliRecord{V: 1, CLIRequest: req, PollHash: hash(secret), Manage: manage})
	return req, req.Code + "." + secret, err
}

// WaitingCLI lists the requests that wait, oldest first.
func (s *Store) WaitingCLI(ctx context.Context) ([]CLIRequest, error) {
	var list []CLIRequest
	err := each(ctx, s.kv, cliKey, func(key string) error {
		var rec cliRecord
		rev, err := s.read(ctx, key, &rec)
		switch {
		case err != nil:
		case !s.now().Before(rec.ExpiresAt):
			_ = s.take(ctx, key, rev) // tidying up; the next list tries again
		case rec.Allowed == nil:
			list = append(list, rec.CLIRequest)
		}
		return err
	})
	slices.SortFunc(list, func(a, b CLIRequest) int { return a.RequestedAt.Compare(b.RequestedAt) })
	return list, err
}

// ConfirmCLI is a person's word on a terminal's request. ErrUnknown if there
// is none, or somebody was faster.
func (s *Store) ConfirmCLI(ctx context.Context, code string, allow bool, by hitl.Principal) error {
	if !typed.WellFormed(code) {
		return ErrUnknown
	}
	var rec cliRecord
	rev, err := s.read(ctx, cliKey+code, &rec)
	if err != nil {
		return err
	}
	if rec.Allowed != nil || !s.now().Before(rec.ExpiresAt) {
		return ErrUnknown
	}
	rec.Allowed, rec.By = &allow, &by
	raw, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	_, err = s.kv.Update(ctx, cliKey+code, raw, rev)
	if lost(err) {
		return ErrUnknown
	}
	if err == nil {
		s.log.Info("terminal login answered", "name", rec.Name, "allowed", allow, "by", by.ID)
	}
	return unavailable(err)
}

// PollCLI asks how a request stands. While it waits, session is nil; once it
// is allowed, exactly one poll gets the session.
func (s *Store) PollCLI(ctx context.Context, poll string) (req CLIRequest, token string, sess *Session, err error) {
	code, secret, _ := strings.Cut(poll, ".")
	if !typed.WellFormed(code) || !wellFormed(secret) {
		return req, "", nil, ErrUnknown
	}
	var rec cliRecord
	rev, err := s.read(ctx, cliKey+code, &rec)
	if err != nil {
		return req, "", nil, err
	}
	if subtle.ConstantTimeCompare([]byte(rec.PollHash), []byte(hash(secret))) != 1 || !s.now().Before(rec.ExpiresAt) || rec.Used {
		return req, "", nil, ErrUnknown
	}
	if rec.Allowed == nil {
		return rec.CLIRequest, "", nil, nil
	}
	if !*rec.Allowed || rec.By == nil {
		if err := s.take(ctx, cliKey+code, rev); err != nil {
			return req, "", nil, err
		}
		return req, "", nil, ErrDenied
	}
	ttl := CLISession
	if rec.Manage {
		ttl = ManageSession
	}
	rec.Used = true
	token, sess, err = s.redeem(ctx, cliKey+code, rev, rec, Session{Person: *rec.By, Channel: "cli", Via: ViaCLI, Name: rec.Name, Manage: rec.Manage}, ttl)
	return rec.CLIRequest, token, sess, err
}
