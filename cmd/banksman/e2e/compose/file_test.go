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
		once := []string{"init", "streams", "cli"}
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
