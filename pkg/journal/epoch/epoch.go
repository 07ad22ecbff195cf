// Package epoch tells a record that was put back from a copy from the one that
// went on: its streams have the same names, creation times and numbers, and yet
// what stands behind a number is something else.
package epoch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/banksman/banksman/pkg/journal"
)

// key in the bucket of the users, whose entries never expire.
const key = "epoch"

// Read is the epoch of the record, 0 for one that was never put back.
func Read(ctx context.Context, nc *nats.Conn) (int64, error) {
	kv, err := open(ctx, nc)
	if err != nil {
		return 0, err
	}
	e, err := kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("epoch: %w", err)
	case len(e.Value()) != 8:
		return 0, fmt.Errorf("epoch: %d bytes, want 8", len(e.Value()))
	}
	return int64(binary.BigEndian.Uint64(e.Value())), nil
}

// Begin begins a new epoch: no cursor of an earlier one counts from the next start
// of the gateways on.
func Begin(ctx context.Context, nc *nats.Conn) error {
	kv, err := open(ctx, nc)
	if err != nil {
		return err
	}
	if _, err := kv.Put(ctx, key, binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))); err != nil {
		return fmt.Errorf("epoch: %w", err)
	}
	return nil
}

func open(ctx context.Context, nc *nats.Conn) (jetstream.KeyValue, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("epoch: %w", err)
	}
	kv, err := js.KeyValue(ctx, journal.UsersBucket)
	if err != nil {
		return nil, fmt.Errorf("epoch: bucket %s: %w", journal.UsersBucket, err)
	}
	return kv, nil
}
