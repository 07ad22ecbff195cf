package bus_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/natsd"
)

func TestKeyringFollowsItsFile(t *testing.T) {
	t.Parallel()
	c := gatewayCredentials(t)
	first := c.SigningKeyID
	path := filepath.Join(t.TempDir(), "gateway.json")
	require.NoError(t, c.Save(path))
	loaded, err := bus.LoadCredentials(path)
	require.NoError(t, err)
	var log logs
	k := bus.NewKeyring(loaded, slog.New(slog.NewTextHandler(&log, nil)))
	signs := func(id string, accepted ...string) {
		t.Helper()
		got, key, err := k.Signer()
		require.NoError(t, err)
		require.Equal(t, id, got)
		require.Equal(t, id, bus.DecisionKeyID(key.Public().(ed25519.PublicKey)))
		require.ElementsMatch(t, accepted, slices.Collect(maps.Keys(k.Public())))
	}
	signs(first, first)

	// Announced, used, and the old one dropped.
	pub, priv, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	second := bus.DecisionKeyID(pub)
	c.DecisionKeys[second] = base64.StdEncoding.EncodeToString(pub)
	c.NextSigningKey = base64.StdEncoding.EncodeToString(priv.Seed())
	require.Equal(t, second, c.NextKeyID())
	require.NoError(t, c.Save(path))
	signs(first, first, second)
	c.SigningKey, c.SigningKeyID, c.NextSigningKey = c.NextSigningKey, second, ""
	require.NoError(t, c.Save(path))
	signs(second, first, second)
	delete(c.DecisionKeys, first)
	require.NoError(t, c.Save(path))
	signs(second, second)
	require.NotContains(t, log.String(), "level=ERROR")
	require.NotContains(t, log.String(), c.SigningKey)

	// What cannot be used changes nothing, and is told once.
	require.NoError(t, os.WriteFile(path, []byte(`{"v":1`), 0o600))
	signs(second, second)
	signs(second, second)
	require.Contains(t, log.String(), "not taken over")
	require.Equal(t, 1, errorsIn(&log))
	stranger := gatewayCredentials(t)
	stranger.Name = "another"
	require.NoError(t, stranger.Save(path))
	signs(second, second)
	require.Equal(t, 2, errorsIn(&log))
	require.NoError(t, os.Remove(path))
	signs(second, second)
	require.NoError(t, c.Save(path))
	signs(second, second)
	require.NoError(t, os.Chmod(path, 0o644))
	signs(second, second)
	require.Equal(t, 3, errorsIn(&log), "%s", log.String())

	// Without a file, and without a key to sign with.
	owner := *gatewayCredentials(t)
	owner.Role, owner.SigningKey, owner.SigningKeyID = bus.RoleOwner, "", ""
	k = bus.NewKeyring(&owner, nil)
	_, _, err = k.Signer()
	require.ErrorIs(t, err, bus.ErrNoSigner)
	require.Equal(t, owner.PublicDecisionKeys(), k.Public())
}

func errorsIn(l *logs) (n int) {
	for line := range strings.Lines(l.String()) {
		if contains([]byte(line), "level=ERROR") {
			n++
		}
	}
	return n
}

func TestDecisionKeysAreRotatedWhileAnAskerWaits_invariant2(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c, log := n.client(t, bus.RoleOwner, "agents")
	one, two := ask(t, c, approval(`{"n":1}`)), ask(t, c, approval(`{"n":2}`))
	ref1, ref2 := one.open(t).Ref, two.open(t).Ref

	old := *n // decides with the old key
	keys, err := natsd.RotateDecisionKey(n.dir)
	require.NoError(t, err)
	creds, err := bus.LoadCredentials(natsd.CredentialsFile(n.dir, bus.RoleGateway, "", ""))
	require.NoError(t, err)
	n.id, n.key, err = creds.Signer()
	require.NoError(t, err)
	require.Equal(t, keys.Signing, n.id)
	require.NotEqual(t, old.id, n.id)

	// Each of the two is taken.
	allowed := hitl.Content{Outcome: hitl.Allowed}
	n.decide(t, ref2, allowed)
	answer, err := two.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, answer.Decision.Outcome)
	old.decide(t, ref1, allowed)
	answer, err = one.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, answer.Decision.Outcome)
	require.NotContains(t, log.String(), "ALARM")

	// Dropped, also for who has connected before.
	three := ask(t, c, approval(`{"n":3}`))
	ref3 := three.open(t).Ref
	_, err = natsd.DropDecisionKeys(n.dir)
	require.NoError(t, err)
	old.write(t, old.signed(t, ref3, old.decision(t, ref3, allowed)))
	require.Eventually(t, func() bool { return contains([]byte(log.String()), "ALARM") }, patience, 5*time.Millisecond)
	require.Contains(t, log.String(), "unknown signer")
	three.waiting(t)
	four := ask(t, c, approval(`{"n":4}`))
	n.decide(t, four.open(t).Ref, allowed)
	_, err = four.wait(t)
	require.NoError(t, err)
	three.waiting(t)
}

// A program that was not given its new key in time ends, and can be started
// again; it does not hang.
func TestADroppedKeyEndsTheClient(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c, _ := n.client(t, bus.RoleOwner, "quiet")
	require.NoError(t, natsd.RotateKey(n.dir, "owner-quiet"))
	require.NoError(t, n.srv.Reload())
	waiting := ask(t, c, approval(`{"n":1}`))
	waiting.open(t)
	require.NoError(t, natsd.DropOldKeys(n.dir, "owner-quiet"))
	require.NoError(t, n.srv.Reload())
	_, err := waiting.wait(t)
	require.ErrorIs(t, err, bus.ErrClosed)
	select {
	case <-c.Done():
		require.ErrorContains(t, c.Err(), "Authorization Violation")
	case <-time.After(patience):
		t.Fatal("the client goes on")
	}
	again, _ := n.client(t, bus.RoleOwner, "quiet")
	require.True(t, again.IsConnected())
}
