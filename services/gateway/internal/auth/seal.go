package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/banksman/banksman/services/gateway/internal/seal"
)

// ceremonyTTL is how long a sign-in may take from its beginning to its end.
const ceremonyTTL = 10 * time.Minute

const (
	sealKey  = "seal"   // in the users' bucket
	spentKey = "spent." // in the sessions' bucket
)

// seal hands out v as something only these gateways can read or make. A sign-in that
// has begun is kept by whoever began it, sealed: beginning one is open to everybody, and
// what everybody can make must not fill the bucket. Only its end is stored, so that it
// ends once.
func (s *Store) seal(ctx context.Context, kind string, v any) (string, error) {
	box, err := s.sealer(ctx)
	if err != nil {
		return "", err
	}
	return box.Seal(kind, s.now().Add(ceremonyTTL).UTC(), v)
}

// open reads what seal made. spend has to be called before it has an effect.
func (s *Store) open(ctx context.Context, kind, text string, v any) (spend func() error, err error) {
	box, err := s.sealer(ctx)
	if err != nil {
		return nil, err
	}
	nonce, err := box.Open(kind, text, s.now(), v)
	if err != nil {
		return nil, ErrUnknown
	}
	return func() error {
		_, err := s.kv.Create(ctx, spentKey+hash(nonce), []byte(`{}`))
		if exists(err) {
			return ErrUnknown
		}
		return unavailable(err)
	}, nil
}

// sealer makes the key that all gateways share, or reads it.
func (s *Store) sealer(ctx context.Context) (*seal.Box, error) {
	if box := s.box.Load(); box != nil {
		return box, nil
	}
	var key []byte
	for key == nil {
		e, err := s.users.Get(ctx, sealKey)
		switch {
		case err == nil:
			key = e.Value()
		case errors.Is(notFound(err), ErrUnknown):
			fresh := make([]byte, 32)
			rand.Read(fresh)
			if _, err := s.users.Create(ctx, sealKey, fresh); err != nil && !exists(err) {
				return nil, unavailable(err)
			}
		default:
			return nil, unavailable(err)
		}
	}
	box, err := seal.New(key)
	if err == nil {
		s.box.Store(box)
	}
	return box, err
}
