package crowd

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/wire"
)

// Person is somebody with a session.
type Person struct {
	ID    string
	Token string
}

func personID(i int) string { return fmt.Sprintf("person-%d", i) }

// Sign makes n people and stores a session for each, as a gateway does after a
// sign-in; nc has a gateway's rights. The gateways' store decides whether such
// a session counts.
func Sign(ctx context.Context, nc *nats.Conn, n int) ([]Person, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(ctx, journal.SessionsBucket)
	if err != nil {
		return nil, err
	}
	users, err := js.KeyValue(ctx, journal.UsersBucket)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	people := make([]Person, n)
	errs := make([]error, n)
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range people {
		var secret [32]byte
		rand.Read(secret[:]) // never fails
		people[i] = Person{ID: personID(i), Token: base64.RawURLEncoding.EncodeToString(secret[:])}
		session, err := json.Marshal(map[string]any{
			"v": 1, "person": hitl.Principal{Kind: "person", ID: people[i].ID, Name: "Person"}, "channel": "web",
			"assurance": "session", "via": "test", "created_at": now, "expires_at": now.Add(time.Hour),
		})
		if err != nil { // times and strings always encode
			panic(err)
		}
		user, err := json.Marshal(map[string]any{
			"v": 1, "id": people[i].ID, "name": "Person", "source": "invite", "created": now,
			"roles": []wire.Grant{{Role: wire.RoleAdmin, Projects: []string{wire.AllProjects}}},
		})
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256([]byte(people[i].Token))
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			// A session of somebody who is known already counts all the same.
			if _, err := users.Put(ctx, "user."+people[i].ID, user); err != nil {
				errs[i] = err
				return
			}
			_, errs[i] = kv.Create(ctx, "session."+hex.EncodeToString(sum[:]), session)
		})
	}
	wg.Wait()
	return people, some(errs)
}
