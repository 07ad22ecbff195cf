package engine

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

// holderEnv makes this program a gateway that takes a request and never gets to
// put it before people; its value is the server's address.
const holderEnv = "ENGINE_TEST_HOLDER"

// holdingText is what such a gateway says when it has one in hand.
const holdingText = "holding"

// heldOpens is a journal whose store of open events does not answer.
type heldOpens struct{ journal.Journal }

func (h heldOpens) WriteEvent(ctx context.Context, subj string, data []byte) (uint64, error) {
	if !strings.HasSuffix(subj, "."+subject.Open) {
		return h.Journal.WriteEvent(ctx, subj, data)
	}
	fmt.Println(holdingText)
	<-ctx.Done()
	return 0, ctx.Err()
}

// hold runs such a gateway until it is killed.
func hold(url string) error {
	nc, err := nats.Connect(url, nats.ReconnectBufSize(-1))
	if err != nil {
		return err
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	j := journal.New(nc, journal.Options{Signer: journal.NewSigner(key)})
	return New(Options{Journal: heldOpens{j}, Conn: nc, Logger: slog.New(slog.DiscardHandler)}).Run(context.Background())
}

// What a gateway had taken and not yet put before people when it was killed is
// shown by another one: the server gives it on as soon as it hears no more of
// the first, see TestSignsOfLifeAreFrequent for how soon that is.
func TestWhatAKilledGatewayHadTakenIsShownByAnother_B48_B50_invariant3(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), holderEnv+"="+w.srv.ClientURL())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	reap := func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // by that signal
	}
	t.Cleanup(reap)
	nc := w.connect()
	r := request("k1")
	raw := w.ask(nc, r)
	said := make(chan string, 1) // one line, never closed
	go func() {
		s := bufio.NewScanner(out)
		s.Scan()
		said <- s.Text()
	}()
	select {
	case line := <-said:
		require.Equal(t, holdingText, line)
	case <-time.After(patience):
		t.Fatal("the first gateway took nothing")
	}
	e, _ := w.gateway()
	reap()
	pending(t, e, r.ID)
	require.Equal(t, "accepted", string(e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status))
	outcome(t, e, r)
}
