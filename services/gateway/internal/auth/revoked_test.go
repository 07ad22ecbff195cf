package auth_test

import (
	"bytes"
	"log/slog"
	"net"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// stoppedLine is a connection to the store on which the making of a session stops.
type stoppedLine struct {
	net.Conn
	reached chan struct{} // something stops
	free    chan struct{} // closed when it may go on
}

func (l *stoppedLine) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	l.Conn = c
	return l, err
}

func (l *stoppedLine) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("$KV."+auth.Bucket+".session.")) {
		select {
		case l.reached <- struct{}{}:
		default:
		}
		<-l.free
	}
	return l.Conn.Write(p)
}

// Whoever signs in by a word of before is either listed when all sign-ins of the person
// end, or does not get in: also where the word was taken already and the session not made
// yet.
func TestSignOutEverywhereEndsWhatIsAboutToSignIn(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T, *auth.Store) func(*auth.Store) (string, error){
		"a confirmed terminal": func(t *testing.T, s *auth.Store) func(*auth.Store) (string, error) {
			req, poll, err := s.RequestCLI(t.Context(), "laptop", false)
			require.NoError(t, err)
			require.NoError(t, s.ConfirmCLI(t.Context(), req.Code, true, ada))
			return func(s *auth.Store) (string, error) {
				_, token, _, err := s.PollCLI(t.Context(), poll)
				return token, err
			}
		},
		"a link": func(t *testing.T, s *auth.Store) func(*auth.Store) (string, error) {
			link, _, err := s.Link(t.Context())
			require.NoError(t, err)
			return func(s *auth.Store) (string, error) {
				token, _, err := s.Exchange(t.Context(), link)
				return token, err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBus(t)
			s := b.store()
			finish := begin(t, s)
			line := &stoppedLine{reached: make(chan struct{}, 1), free: make(chan struct{})}
			closed := make(chan struct{})
			nc, err := nats.Connect(b.srv.ClientURL(), nats.SetCustomDialer(line), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
			require.NoError(t, err)
			t.Cleanup(func() {
				nc.Close()
				<-closed
			})
			slow, err := auth.Open(t.Context(), auth.Options{Conn: nc, Logger: slog.New(slog.DiscardHandler), Clock: b.clk.now, Person: ada})
			require.NoError(t, err)
			type result struct {
				token string
				err   error
			}
			got := make(chan result, 1)
			go func() {
				token, err := finish(slow)
				got <- result{token, err}
			}()
			<-line.reached
			require.NoError(t, s.RevokeAll(t.Context(), ada.ID, ""))
			close(line.free)
			r := <-got
			require.ErrorIs(t, r.err, auth.ErrUnknown)
			require.Empty(t, r.token)
			left, err := s.Sessions(t.Context(), ada.ID)
			require.NoError(t, err)
			require.Empty(t, left)
			_, err = finish(s)
			require.ErrorIs(t, err, auth.ErrUnknown, "nor does anybody later")
		})
	}
}
