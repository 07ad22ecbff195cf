package creds_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/cmd/banksman/internal/creds"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
)

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	for path := range tree(t, dir) {
		out = append(out, path)
	}
	return out
}

// Each part gets a directory with what it needs and nothing else, and the server
// that starts from its own serves the parts that read theirs.
func TestInstallGivesEachPartItsOwn_invariant2(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	args := []string{
		"--port", "-1", "--store", filepath.Join(out, "store"), "--install", "nats=" + out + "/nats",
		"--install", "gateway=" + out + "/gateway", "--install", "owner-agents=" + out + "/agent",
	}
	mustRun(t, dir, args...)
	require.ElementsMatch(t, []string{"server.conf", "accounts.conf"}, names(t, out+"/nats"))
	require.Equal(t, []string{"gateway.json"}, names(t, out+"/gateway"))
	require.Equal(t, []string{"owner-agents.json"}, names(t, out+"/agent"))

	s, err := natsd.Start(t.Context(), natsd.StartOptions{ConfigFile: out + "/nats/server.conf"})
	require.NoError(t, err)
	defer s.Shutdown()
	require.NoError(t, creds.Provision(t.Context(), dir, nil, journal.Config{}))
	cred, err := bus.LoadCredentials(out + "/agent/owner-agents.json")
	require.NoError(t, err)
	c, err := bus.Connect(t.Context(), cred, bus.Options{})
	require.NoError(t, err)
	c.Close()

	conf := tree(t, out+"/nats")
	mustRun(t, dir, args...)
	require.Equal(t, conf, tree(t, out+"/nats"), "a second run changes nothing")
	for want, bad := range map[string]string{
		"want PART=DIR": "gateway", "is no part": "../creds/gateway=" + out, "no such file": "owner-nobody=" + out,
	} {
		code, _, errs := run(t, dir, "--install", bad)
		require.NotZero(t, code)
		require.Contains(t, errs, want)
	}
}

// The nodes of a cluster have the same accounts and one password, which stays.
func TestInstallOfACluster(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	var args []string
	for i := 1; i <= 3; i++ {
		args = append(args, "--node", fmt.Sprintf("nats-%d", i), "--install", fmt.Sprintf("nats-%d=%s/%d", i, out, i))
	}
	args = append(args, "--host", "0.0.0.0", "--port", "4222", "--store", out+"/store", "--url", "nats://nats-1:4222")
	mustRun(t, dir, args...)
	password, err := os.ReadFile(dir + "/nats/cluster-password")
	require.NoError(t, err)
	require.Greater(t, len(password), 40)
	accounts, err := os.ReadFile(out + "/1/accounts.conf")
	require.NoError(t, err)
	for i := 1; i <= 3; i++ {
		conf, err := os.ReadFile(fmt.Sprintf("%s/%d/server.conf", out, i))
		require.NoError(t, err)
		require.Contains(t, string(conf), fmt.Sprintf(`server_name: "nats-%d"`, i))
		require.Contains(t, string(conf), string(password))
		require.NotContains(t, string(conf), fmt.Sprintf("@nats-%d:", i), "no node of its own")
		require.Equal(t, 2, strings.Count(string(conf), "nats://node:"+string(password)+"@nats-"))
		own, err := os.ReadFile(fmt.Sprintf("%s/%d/accounts.conf", out, i))
		require.NoError(t, err)
		require.Equal(t, string(accounts), string(own))
	}
	before := tree(t, out)
	mustRun(t, dir, args...)
	require.Equal(t, before, tree(t, out))
}

// A node's host may have a domain or be an address; its server's name has no dots.
func TestNodesByAddressAndByDomain(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	mustRun(t, dir, "--node", "10.0.0.1", "--node", "n2.example.com", "--install", "10.0.0.1="+out, "--port", "4222", "--url", "nats://10.0.0.1:4222")
	conf, err := os.ReadFile(filepath.Join(out, "server.conf"))
	require.NoError(t, err)
	require.Contains(t, string(conf), `server_name: "10-0-0-1"`)
	require.Contains(t, string(conf), "@n2.example.com:6222")
	code, _, errs := run(t, dir, "--node", "a.b", "--node", "a-b")
	require.NotZero(t, code)
	require.Contains(t, errs, "--node: a.b and a-b are one server's name")
}

// Servers that start from what the nodes got let each other in. Their names lead
// nowhere here, so each server's address is taken for its name.
func TestNodesOfAnInstalledClusterLetEachOtherIn(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	var args []string
	for i := range 3 {
		args = append(args, "--node", fmt.Sprintf("nats-%d", i), "--install", fmt.Sprintf("nats-%d=%s/%d", i, out, i))
	}
	mustRun(t, dir, append(args, "--host", "127.0.0.1", "--port", "4222", "--store", out+"/store", "--url", "nats://nats-0:4222")...)
	at := map[string]string{}
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		at[fmt.Sprintf("nats-%d", i)] = l.Addr().String()
		require.NoError(t, l.Close())
	}
	var nodes []*server.Server
	for i := range 3 {
		opts, err := server.ProcessConfigFile(fmt.Sprintf("%s/%d/server.conf", out, i))
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(at[opts.ServerName])
		require.NoError(t, err)
		opts.Cluster.Port, err = strconv.Atoi(port)
		require.NoError(t, err)
		for _, r := range opts.Routes {
			r.Host = at[r.Hostname()]
		}
		opts.Port, opts.StoreDir, opts.NoSigs = -1, t.TempDir(), true
		s, err := server.NewServer(opts)
		require.NoError(t, err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		nodes = append(nodes, s)
	}
	for _, s := range nodes {
		require.Eventually(t, func() bool { return s.NumRemotes() == 2 }, patience, 20*time.Millisecond, "%s lets two others in", s.Name())
	}
}
