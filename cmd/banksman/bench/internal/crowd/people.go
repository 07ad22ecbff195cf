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
	kv, err := js.KeyValue(ctx, "hitl_sessions")
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
		sum := sha256.Sum256([]byte(people[i].Token))
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			_, errs[i] = kv.Create(ctx, "session."+hex.EncodeToString(sum[:]), session)
		})
	}
	wg.Wait()
	return people, some(errs)
}
