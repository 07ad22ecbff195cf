package desktop

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newBus starts a real bus of our own and returns its address.
func newBus(t *testing.T) string {
	t.Helper()
	// Not t.TempDir: the name of a socket may have 107 bytes only.
	dir, err := os.MkdirTemp("", "bus")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := filepath.Join(dir, "bus.conf")
	require.NoError(t, os.WriteFile(config, []byte(`<busconfig><type>session</type><listen>unix:path=`+dir+`/s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`), 0o600))
	cmd := exec.Command("dbus-daemon", "--config-file="+config, "--nofork", "--print-address=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says that it was killed
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(address)
}

// daemon is a double of what shows notifications: what it shows now, by id.
type daemon struct {
	address string
	markup  bool
	silent  chan struct{} // closed with the test

	mu    sync.Mutex
	next  channeltest.Answer
	got   []channeltest.Received
	shown map[uint32]string
	urged []byte
}

func newDaemon(t *testing.T, markup bool) *daemon {
	t.Helper()
	d := &daemon{address: newBus(t), markup: markup, silent: make(chan struct{}), shown: map[uint32]string{}}
	conn, err := dbus.Connect(d.address)
	require.NoError(t, err)
	t.Cleanup(func() {
		close(d.silent)
		_ = conn.Close()
	})
	require.NoError(t, conn.Export(d, path, service))
	reply, err := conn.RequestName(service, dbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	require.Equal(t, dbus.RequestNameReplyPrimaryOwner, reply)
	return d
}

// GetCapabilities is called over the bus.
func (d *daemon) GetCapabilities() ([]string, *dbus.Error) {
	if d.markup {
		return []string{"body", "body-markup"}, nil
	}
	return []string{"body"}, nil
}

// Notify is called over the bus.
func (d *daemon) Notify(_ string, replaces uint32, _, summary, body string, _ []string, hints map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	got := channeltest.Received{Text: summary + "\n" + body}
	if replaces != 0 {
		got.Changes = strconv.FormatUint(uint64(replaces), 10)
	}
	d.mu.Lock()
	next := d.next
	d.got = append(d.got, got)
	d.mu.Unlock()
	switch next {
	case channeltest.Later:
		return 0, dbus.NewError("org.freedesktop.Notifications.Error.ExcessNotificationGeneration", []any{"ANSWERSECRET"})
	case channeltest.Refuse:
		return 0, dbus.NewError("org.freedesktop.DBus.Error.InvalidArgs", []any{"ANSWERSECRET"})
	case channeltest.Silent:
		<-d.silent
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id := replaces
	if id == 0 {
		id = uint32(len(d.shown) + 1)
	}
	d.shown[id] = got.Text
	if u, ok := hints["urgency"].Value().(byte); ok {
		d.urged = append(d.urged, u)
	}
	return id, nil
}

func (d *daemon) Channel(t *testing.T) channel.Channel { return made(t, d.address) }

func made(t *testing.T, address string) *Channel {
	t.Helper()
	c, err := New(address)
	require.NoError(t, err)
	return c
}

func (d *daemon) Next(a channeltest.Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = a
}

func (d *daemon) Received() []channeltest.Received {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.got
}

// sees returns what is shown under id, how many notifications there are, and how
// urgent they were.
func (d *daemon) sees(id uint32) (text string, n int, urged []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shown[id], len(d.shown), d.urged
}

func TestConformance(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, channeltest.Options{
		New:     func(t *testing.T) channeltest.Receiver { return newDaemon(t, true) },
		Can:     []channeltest.Answer{channeltest.Take, channeltest.Later, channeltest.Refuse, channeltest.Silent},
		Secrets: []string{"ANSWERSECRET"}, NoRetryAfter: true, Updates: true,
	})
}

// A desktop that knows markup gets an agent's text escaped, another one gets it
// as it is; the end takes the place of what was shown.
func TestAgentsTextIsNoMarkup_invariant10(t *testing.T) {
	t.Parallel()
	for _, markup := range []bool{true, false} {
		d := newDaemon(t, markup)
		c := made(t, d.address)
		r, err := c.Send(t.Context(), channeltest.Alert(channel.Opened))
		require.NoError(t, err)
		text, _, _ := d.sees(1)
		require.Contains(t, text, map[bool]string{true: "&lt;b&gt;bold&lt;/b&gt;", false: "<b>bold</b>"}[markup])
		critical := channeltest.Alert(channel.Opened)
		critical.Data.Risk = "critical"
		_, err = c.Send(t.Context(), critical)
		require.NoError(t, err)
		_, err = c.Update(t.Context(), r, channeltest.Alert(channel.Closed))
		require.NoError(t, err)
		text, n, urged := d.sees(1)
		require.Contains(t, text, "Denied by Bob")
		require.Equal(t, 2, n)
		require.Equal(t, []byte{1, 2, 0}, urged)
	}
}

func TestDesktopThatIsNotThere(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		newBus(t):                          "nothing on the session bus shows notifications",
		"unix:path=/nowhere/ADDRESSSECRET": "no session bus to reach",
	} {
		_, err := made(t, address).Send(t.Context(), channeltest.Alert(channel.Opened))
		var p *channel.Problem
		require.ErrorAs(t, err, &p)
		require.Equal(t, channel.Retry, p.Class)
		require.False(t, p.Unknown)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "ADDRESSSECRET")
	}
	_, err := made(t, "").Update(t.Context(), channel.Receipt{Ref: "x"}, channeltest.Alert(channel.Closed))
	require.ErrorContains(t, err, "names no notification")
}

// A bus that takes the connection and says nothing keeps nobody longer than the
// attempt may last.
func TestSilentBusIsGivenUp(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "bus")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", dir+"/s")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := listener.Accept(); err == nil {
			accepted <- c
			cancel()
		}
	}()
	_, err = made(t, "unix:path="+dir+"/s").Send(ctx, channeltest.Alert(channel.Opened))
	require.ErrorContains(t, err, "no session bus to reach")
	require.NoError(t, (<-accepted).Close())
}
