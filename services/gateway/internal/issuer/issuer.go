// Package issuer asks an OpenID Connect issuer who somebody is, and turns what it
// says into roles.
package issuer

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// IDPrefix begins the ids of users that an issuer vouches for.
const IDPrefix = "oidc-"

// wait bounds one call of the issuer.
const wait = 10 * time.Second

// Errors of asking an issuer.
var (
	ErrAway   = errors.New("the issuer cannot be asked now")
	ErrAnswer = errors.New("the issuer's answer does not fit")
	ErrNoRole = errors.New("none of your groups has a role here")
)

// Options are an issuer that vouches for people, and what it takes to ask it.
type Options struct {
	Issuer   string
	Name     string // what people read on the button; default the issuer's host
	ClientID string
	Secret   string
	// GroupsClaim names the claim that lists a person's groups; default groups.
	GroupsClaim string
	// Roles are what the members of a group may do; the group "*" stands for
	// everybody the issuer knows.
	Roles map[string][]wire.Grant
}

// Issuer asks an issuer. It is found when it is first needed, so that a gateway
// starts while it is away.
type Issuer struct {
	Options
	redirect string
	client   *http.Client

	mu       sync.Mutex
	provider *oidc.Provider
}

// Check reports what is wrong with the options, by the name of the gateway's flag.
func (o *Options) Check() error {
	u, err := url.Parse(o.Issuer)
	switch {
	case err != nil || u.Host == "":
		return fmt.Errorf("-oidc-issuer: %q is no address", o.Issuer)
	case u.Scheme != "https" && !(u.Scheme == "http" && isLoopback(u.Hostname())):
		return fmt.Errorf("-oidc-issuer: %q must begin with https://", o.Issuer)
	case o.ClientID == "":
		return errors.New("-oidc-client-id: is missing")
	case len(o.Roles) == 0:
		return errors.New("-oidc-role: no group has a role, so nobody could sign in")
	}
	for group, set := range o.Roles {
		if inv := role.Set(set).Check("roles of " + group); inv != nil {
			return fmt.Errorf("-oidc-role: %w", inv)
		}
	}
	return nil
}

// New makes an Issuer. page is where it sends people back to, below base.
func New(o *Options, base *url.URL, page string) (*Issuer, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if base == nil {
		return nil, errors.New("issuer: needs a base URL")
	}
	i := &Issuer{Options: *o, redirect: base.Scheme + "://" + base.Host + page, client: &http.Client{Timeout: wait}}
	if u, err := url.Parse(o.Issuer); err == nil && i.Name == "" {
		i.Name = u.Hostname()
	}
	if i.GroupsClaim == "" {
		i.GroupsClaim = "groups"
	}
	return i, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// config finds the issuer's addresses and keys.
func (i *Issuer) config(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.provider == nil {
		// The provider keeps the context for the keys it fetches later.
		p, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), i.client), i.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrAway, err)
		}
		i.provider = p
	}
	return &oauth2.Config{
		ClientID: i.ClientID, ClientSecret: i.Secret, RedirectURL: i.redirect, Endpoint: i.provider.Endpoint(),
		Scopes: []string{oidc.ScopeOpenID, "profile", "email", "groups"},
	}, i.provider, nil
}

// Question is what was asked of the issuer, kept by the browser that asked.
type Question struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// Ask begins a sign-in: what the browser has to keep, and where it goes.
func (i *Issuer) Ask(ctx context.Context, state, nonce string) (Question, string, error) {
	conf, _, err := i.config(ctx)
	if err != nil {
		return Question{}, "", err
	}
	a := Question{State: state, Nonce: nonce, Verifier: oauth2.GenerateVerifier()}
	return a, conf.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// Person is whom an issuer vouches for.
type Person struct {
	ID, Name, Subject string
	Roles             role.Set
}

// Redeem turns a code into the person that the issuer vouches for.
func (i *Issuer) Redeem(ctx context.Context, code string, a Question) (*Person, error) {
	conf, provider, err := i.config(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, i.client)
	token, err := conf.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		var refused *oauth2.RetrieveError
		if errors.As(err, &refused) { // its text may repeat the code
			return nil, fmt.Errorf("%w: it refused the code (%s)", ErrAnswer, refused.ErrorCode)
		}
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return nil, fmt.Errorf("%w: it has no id_token", ErrAnswer)
	}
	id, err := provider.Verifier(&oidc.Config{ClientID: i.ClientID}).Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.Nonce)) != 1 {
		return nil, fmt.Errorf("%w: the nonce is another one", ErrAnswer)
	}
	var claims map[string]json.RawMessage
	if err := id.Claims(&claims); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	set := i.roles(claims[i.GroupsClaim])
	if len(set) == 0 {
		return nil, ErrNoRole
	}
	sum := sha256.Sum256([]byte(id.Issuer + "\n" + id.Subject))
	u := &Person{ID: IDPrefix + hex.EncodeToString(sum[:16]), Subject: id.Subject, Roles: set}
	for _, claim := range []string{"name", "preferred_username", "email"} {
		var name string
		if json.Unmarshal(claims[claim], &name) == nil && name != "" && u.Name == "" {
			u.Name = name
		}
	}
	return u, nil
}

// roles are those of a person's groups, in their order: a list, or one as a text.
func (i *Issuer) roles(claim json.RawMessage) role.Set {
	var list []*string
	var one string
	groups := []string{}
	// Of a list that is not whole, what can be read counts for nothing either.
	if json.Unmarshal(claim, &list) == nil && !slices.Contains(list, nil) {
		for _, g := range list {
			groups = append(groups, *g)
		}
	} else if json.Unmarshal(claim, &one) == nil {
		groups = append(groups, one)
	}
	set := role.Set(slices.Clone(i.Roles["*"]))
	for group, grants := range i.Roles {
		if group != "*" && slices.Contains(groups, group) {
			set = append(set, grants...)
		}
	}
	slices.SortFunc(set, role.Compare)
	return set
}
