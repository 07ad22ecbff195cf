package journal_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

// sieve is a TCP relay that hands on what pass makes of each message of the
// server: nil leaves it out. Its length must stay.
type sieve struct {
	addr string
	pass func(line, body []byte) []byte
}

func newSieve(t *testing.T, to string, pass func(line, body []byte) []byte) *sieve {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &sieve{addr: l.Addr().String(), pass: pass}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			wg.Go(func() {
				_, _ = io.Copy(server, client)
				_ = server.Close()
			})
			wg.Go(func() {
				s.relay(client, bufio.NewReader(server))
				_ = client.Close()
			})
		}
	})
	return s
}

// relay hands on the server's protocol, message by message.
func (s *sieve) relay(to io.Writer, from *bufio.Reader) {
	for {
		line, err := from.ReadBytes('\n')
		if err != nil {
			return
		}
		frame := line
		if bytes.HasPrefix(line, []byte("MSG ")) || bytes.HasPrefix(line, []byte("HMSG ")) {
			fields := bytes.Fields(line)
			size, err := strconv.Atoi(string(fields[len(fields)-1]))
			if err != nil {
				return
			}
			body := make([]byte, size+2) // and the end of line
			if _, err := io.ReadFull(from, body); err != nil {
				return
			}
			if body = s.pass(line, body); body == nil {
				continue
			}
			frame = append(frame, body...)
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

// A message that is lost between the nodes of a cluster breaks no connection;
// only the gap in the consumer's own count shows it. The leader that is asked
// then may be so new that it has not applied yet what was read from another one.
func TestFollowGoesOnAfterALostMessage_invariant8(t *testing.T) {
	t.Parallel()
	for name, behind := range map[string]int32{"invariant 8: the leader knows": 0, "invariant 8: a new leader is behind": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, direct := provisioned(t)
			var lost, told atomic.Int32
			s := newSieve(t, b.srv.Addr().String(), func(line, body []byte) []byte {
				// the second message of the first consumer
				if bytes.Contains(line, []byte(" $JS.ACK."+journal.Events+".replay-")) && bytes.Contains(line, []byte(".1.2.2.")) && lost.Add(1) == 1 {
					return nil
				}
				if lost.Load() > 0 && bytes.Contains(body, []byte("stream_info_response")) && told.Add(1) <= behind {
					return lastSeq.ReplaceAll(body, []byte(`"last_seq":0`))
				}
				return body
			})
			nc, err := nats.Connect("nats://"+s.addr, nats.ReconnectBufSize(-1))
			require.NoError(t, err)
			t.Cleanup(nc.Close)
			writer := journal.New(direct, journal.Options{Signer: newKey(t)})
			got := make(chan uint64, 10) // never closed
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1) // one result, never closed
			go func() {
				done <- journal.New(nc, journal.Options{}).Follow(ctx, journal.Events, 0, nil, func(m journal.Message) error {
					got <- m.Seq
					return nil
				})
			}()
			for i := range 4 {
				_, err := writer.WriteEvent(t.Context(), fmt.Sprintf("hitl.ixe.t.o.s.i%d.open", i), []byte("x"))
				require.NoError(t, err)
				if i == 0 {
					require.EqualValues(t, 1, wait(t, got))
				}
			}
			for seq := uint64(2); seq <= 4; seq++ {
				select {
				case at := <-got:
					require.Equal(t, seq, at)
				case err := <-done:
					require.NoError(t, err)
				}
			}
			require.Positive(t, lost.Load(), "one was lost")
			require.Greater(t, told.Load(), behind, "and the leader was asked")
			cancel()
			require.ErrorIs(t, wait(t, done), context.Canceled)
			require.Empty(t, got, "and none came twice")
		})
	}
}

var lastSeq = regexp.MustCompile(`"last_seq":\d`)

// scripted is a server on which a script answers in the place of the streams,
// with what a replicated stream may say. It returns how often the record was
// read.
func scripted(t *testing.T, subj string, answers ...string) (*journal.JetStream, *atomic.Int32) {
	t.Helper()
	b := newNode(t)
	script := b.connect(t)
	var n atomic.Int32
	_, err := script.Subscribe(subj, func(m *nats.Msg) {
		_ = m.Respond([]byte(answers[min(int(n.Add(1)), len(answers))-1]))
	})
	require.NoError(t, err)
	reads := new(atomic.Int32)
	watch := b.connect(t)
	_, err = watch.Subscribe("$JS.API.STREAM.MSG.GET.>", func(*nats.Msg) { reads.Add(1) })
	require.NoError(t, err)
	require.NoError(t, script.Flush())
	require.NoError(t, watch.Flush())
	return journal.New(b.connect(t), journal.Options{Signer: newKey(t)}), reads
}

// A leader that has another write of the subject under way refuses with 10164,
// which says nothing about whether there is a decision: the write is repeated.
func TestAWriteUnderWayIsNoVerdict_invariant7(t *testing.T) {
	t.Parallel()
	const underWay = `{"error":{"code":400,"err_code":10164,"description":"expected last sequence does not match"}}`
	t.Run("invariant 7: a decision", func(t *testing.T) {
		t.Parallel()
		j, reads := scripted(t, subject.Decision(ref), underWay, underWay, underWay, `{"stream":"HITL_DECISIONS","seq":7}`)
		w, won, err := j.Decide(t.Context(), ref, decision("d"))
		require.NoError(t, err)
		require.True(t, won)
		require.EqualValues(t, 7, w.Seq)
		require.Zero(t, reads.Load())
	})
	t.Run("invariant 7: an event", func(t *testing.T) {
		t.Parallel()
		subj := subject.Event(ref, "s", subject.Open)
		j, reads := scripted(t, subj, underWay, underWay, `{"stream":"HITL_EVENTS","seq":9}`)
		seq, err := j.WriteEvent(t.Context(), subj, []byte("x"))
		require.NoError(t, err)
		require.EqualValues(t, 9, seq)
		require.Zero(t, reads.Load())
	})
	t.Run("invariant 7: until its time is up", func(t *testing.T) {
		t.Parallel()
		j, _ := scripted(t, subject.Decision(ref), underWay)
		ctx, cancel := context.WithCancel(t.Context())
		pending := decide(ctx, j, decision("d"))
		cancel()
		require.ErrorIs(t, wait(t, pending).err, journal.ErrUnknown)
	})
}
