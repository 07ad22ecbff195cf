package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
)

const (
	patience = time.Minute
	asMain   = "AGENT_TEST_AS_MAIN" // has the test binary be the command
)

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func command(args ...string) (*exec.Cmd, *bytes.Buffer) {
	var out bytes.Buffer
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asMain+"=1")
	cmd.Stderr = &out
	return cmd, &out
}

func TestCommand_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no credential": {[]string{"--creds", "/no/such/file", "--data", t.TempDir()}, "banksman-agent: -creds: "},
		"bad level":     {[]string{"--log", "loud"}, "invalid value \"loud\" for flag -log"},
		"bad timeout":   {[]string{"--creds", "/no/such/file", "--data", t.TempDir(), "--ask-timeout", "-1s"}, "banksman-agent: -ask-timeout: -1s is less than 0"},
		"guard by hand": {[]string{"__guard", "true"}, "started by the product itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, out := command(c.args...)
			var exit *exec.ExitError
			require.ErrorAs(t, cmd.Run(), &exit)
			require.Equal(t, 2, exit.ExitCode())
			require.Contains(t, out.String(), c.want)
		})
	}
}

// SIGTERM ends the process with success and leaves its open ask to a successor.
func TestCommand_SigtermKeepsAsks(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(natsd.Plan{
		Dir: dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed, Owners: []natsd.Owner{{Name: "agents", Pool: true}},
	}))
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.NoError(t, err)
	defer srv.Shutdown()
	connect := func(role bus.Role) *nats.Conn {
		cred, err := bus.LoadCredentials(natsd.CredentialsFile(dir, role, bus.DefaultTenant, ""))
		require.NoError(t, err)
		auth, err := cred.Auth()
		require.NoError(t, err)
		nc, err := nats.Connect(srv.ClientURL(), auth)
		require.NoError(t, err)
		return nc
	}
	admin := connect(bus.RoleProvisioner)
	defer admin.Close()
	require.NoError(t, journal.Provision(ctx, admin, journal.Config{Pools: []journal.Pool{{Tenant: bus.DefaultTenant, Pool: "agents"}}}))
	gw := connect(bus.RoleGateway)
	defer gw.Close()
	j := journal.New(gw, journal.Options{})
	passOn, err := relay.Start(relay.Options{Conn: gw})
	require.NoError(t, err)
	defer passOn.Close()

	cmd, out := command("--creds", natsd.CredentialsFile(dir, bus.RoleOwner, bus.DefaultTenant, "agents"), "--data", t.TempDir(), "--ask-timeout", "0")
	require.NoError(t, cmd.Start())
	defer func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	require.NoError(t, j.Enqueue(ctx, &hitl.Start{V: 1, SessionID: "s1", Tenant: bus.DefaultTenant, Pool: "agents", Runtime: "demo", Prompt: "hello"}))
	asked := make(chan journal.Message, 1)
	follow, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	var withdrawn bool
	go func() {
		defer close(done)
		_ = j.Follow(follow, journal.Requests, 1, nil, func(m journal.Message) error { // ends with its context
			p, err := subject.Parse(m.Subject)
			if err == nil && p.Kind == "req" {
				asked <- m
			} else {
				withdrawn = true
			}
			return nil
		})
	}()
	select {
	case m := <-asked:
		r, err := hitl.ParseRequest(m.Data)
		require.NoError(t, err)
		require.Equal(t, "s1", r.SessionID)
		require.Zero(t, r.Expiry(), "--ask-timeout 0")
	case <-ctx.Done():
		require.FailNow(t, "no ask", out.String())
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), out.String())
	pos, err := j.Position(ctx, journal.Requests)
	require.NoError(t, err)
	require.EqualValues(t, 1, pos.Last, "something followed the request")
	stop()
	<-done
	require.False(t, withdrawn)
}
