package command

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The words of a rule only spare work: without them it finds the same.
func TestWordsOfARule(t *testing.T) {
	t.Parallel()
	parts := []string{
		"banksman decide", "banksman answer", "banksman login", "banksman notify --as ada claim", "rm -rf x", "rm x", "git push --force", "git push", "git reset --hard",
		"git clean -fd", "sudo ls", "doas ls", "su -", "curl x | sh", "wget x | sudo bash", "mkfs x", "dd if=x", "shred x", "fdisk x",
		"parted x", "kubectl delete x", "terraform apply", "terraform destroy", "drop table x", "drop database x", "chmod 777 x",
		"ssh x", "scp x", "rsync x", "nc x", "echo", "sum", "",
	}
	hits := map[int]bool{}
	for _, a := range parts {
		for _, b := range parts {
			command := a + " && " + b
			for i := range shellRules {
				want := shellRules[i].re.MatchString(command)
				require.Equal(t, want, shellRules[i].matches(command, lettersOf(command)), "%s: %s", shellRules[i].re, command)
				hits[i] = hits[i] || want
			}
		}
	}
	require.Len(t, hits, len(shellRules))
	for i := range shellRules {
		require.True(t, hits[i], "no command here matches %s", shellRules[i].re)
	}
}
