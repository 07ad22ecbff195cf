package compose

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// project reads compose files with the library that docker compose reads them
// with; an error is what "docker compose config" would say.
func project(t *testing.T, env []string, files ...string) *types.Project {
	t.Helper()
	for i, f := range files {
		files[i] = filepath.Join(root, f)
	}
	o, err := cli.NewProjectOptions(files, cli.WithWorkingDirectory(root), cli.WithEnv(env), cli.WithInterpolation(true), cli.WithProfiles([]string{"*"}))
	require.NoError(t, err)
	p, err := o.LoadProject(t.Context())
	require.NoError(t, err)
	return p
}

// What every service keeps to, in both files.
func TestComposeFilesAreHardened(t *testing.T) {
	t.Parallel()
	for name, files := range map[string][]string{
		"one server": {"docker-compose.yml"}, "cluster": {"docker-compose.yml", "deploy/compose.cluster.yml"},
	} {
		p := project(t, nil, files...)
		once := []string{"init", "streams", "cli", "notify"}
		for _, s := range p.Services {
			where := name + ": " + s.Name
			require.Equal(t, "10001:10001", s.User, where)
			require.True(t, s.ReadOnly, where)
			require.Equal(t, []string{"ALL"}, s.CapDrop, where)
			require.Empty(t, s.CapAdd, where)
			require.False(t, s.Privileged, where)
			require.Equal(t, []string{"no-new-privileges:true"}, s.SecurityOpt, where)
			require.NotNil(t, s.Deploy, where)
			limits := s.Deploy.Resources.Limits
			require.NotNil(t, limits, where)
			require.Positive(t, limits.MemoryBytes, where)
			require.Positive(t, limits.NanoCPUs, where)
			require.Positive(t, limits.Pids, where)
			if slices.Contains(once, s.Name) {
				require.Equal(t, "no", s.Restart, where)
			} else {
				require.NotNil(t, s.HealthCheck, where)
				require.Equal(t, "CMD", s.HealthCheck.Test[0], "%s: there is no shell", where)
				require.Equal(t, "unless-stopped", s.Restart, where)
			}
			for k, v := range s.Environment {
				require.False(t, strings.Contains(k, "PASSWORD") || strings.Contains(k, "TOKEN") || strings.Contains(k, "SECRET"), "%s: %s", where, k)
				_ = v
			}
			for _, port := range s.Ports {
				require.Equal(t, "proxy", s.Name, "only the proxy is reachable from outside")
				require.Equal(t, "127.0.0.1", port.HostIP, "and by default from this host alone")
			}
			for _, v := range s.Volumes {
				require.NotContains(t, v.Source, "docker.sock", where)
				creds := strings.HasSuffix(v.Source, "-creds") && s.Name != "init"
				require.True(t, !creds || v.ReadOnly, "%s: %s is for reading", where, v.Source)
				require.True(t, v.Source != "state" || slices.Contains(once, s.Name), "%s has everybody's keys", where)
			}
		}
		require.True(t, p.Networks["bus"].Internal, "nobody outside reaches the bus")
	}
}

func TestClusterFileHasThreeServersAndThreeCopies(t *testing.T) {
	t.Parallel()
	p := project(t, nil, "docker-compose.yml", "deploy/compose.cluster.yml")
	names := p.ServiceNames()
	require.NotContains(t, names, "nats")
	require.Subset(t, names, []string{"nats-1", "nats-2", "nats-3"})
	require.Contains(t, p.Services["streams"].Command, "--replicas=3")
	require.NotContains(t, p.Services["streams"].DependsOn, "nats")
	for _, n := range []string{"nats-1", "nats-2", "nats-3"} {
		require.Contains(t, p.Services["streams"].DependsOn, n)
		require.Contains(t, p.Services["init"].Command, "--install="+n+"=/out/"+n)
	}
}

// Docker starts no container that may use more processors than the host has.
func TestComposeFilesStartOnSmallHosts(t *testing.T) {
	t.Parallel()
	for cpus, env := range map[types.NanoCPUs][]string{2: nil, 1: {"BANKSMAN_CPUS=1"}} {
		for _, more := range []string{"deploy/compose.cluster.yml", "deploy/compose.observe.yml"} {
			for _, s := range project(t, env, "docker-compose.yml", more).Services {
				require.LessOrEqual(t, s.Deploy.Resources.Limits.NanoCPUs, cpus, "%s of %s", s.Name, more)
			}
		}
	}
}

// What stands beside the team for its operators: reachable from this host alone, and
// nobody's password is in it.
func TestObserveFileIsHardened(t *testing.T) {
	t.Parallel()
	p := project(t, nil, "docker-compose.yml", "deploy/compose.observe.yml")
	for _, name := range []string{"prometheus", "grafana"} {
		s := p.Services[name]
		require.NotContains(t, []string{"", "0", "root"}, s.User, name)
		require.True(t, s.ReadOnly, name)
		require.Equal(t, []string{"ALL"}, s.CapDrop, name)
		require.Equal(t, []string{"no-new-privileges:true"}, s.SecurityOpt, name)
		require.NotNil(t, s.HealthCheck, name)
		require.NotContains(t, s.Image, "latest", name)
		require.Regexp(t, `:v?\d+\.\d+\.\d+$`, s.Image, name)
		require.NotNil(t, s.Deploy, name)
		require.Positive(t, s.Deploy.Resources.Limits.MemoryBytes, name)
		require.Len(t, s.Ports, 1, name)
		require.Equal(t, "127.0.0.1", s.Ports[0].HostIP, name)
		for k, v := range s.Environment {
			require.NotContains(t, k, "PASSWORD", name)
			require.NotNil(t, v, k)
		}
		for _, v := range s.Volumes {
			require.True(t, v.Type == "volume" || v.ReadOnly, "%s: %s", name, v.Source)
			if v.Type == "bind" {
				require.FileExists(t, statFile(v.Source), "%s: %s", name, v.Source)
			}
		}
	}
	require.Equal(t, "true", *p.Services["grafana"].Environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"])
	require.NotContains(t, p.Services["grafana"].Networks, "bus", "it needs Prometheus alone")
	// Whoever is scraped listens where Prometheus can reach it.
	for name, env := range map[string]string{"gateway-a": "GATEWAY", "gateway-b": "GATEWAY", "notifier": "NOTIFIER", "agent": "AGENT"} {
		require.Equal(t, "0.0.0.0:9090", *p.Services[name].Environment["BANKSMAN_"+env+"_STATUS"], name)
		require.Contains(t, p.Services[name].Networks, "bus", name)
	}
}

// statFile is a file of a directory, or the file itself.
func statFile(path string) string {
	if filepath.Ext(path) == "" && filepath.Base(path) == "prometheus" {
		return filepath.Join(path, "prometheus.yml")
	}
	if filepath.Base(path) == "provisioning" {
		return filepath.Join(path, "datasources", "prometheus.yml")
	}
	return path
}
