package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// From "Always…" in the browser to a command that nobody is asked about, and back
// by the terminal.
func TestARuleFromTheBrowser_B59(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	in, tokenFile, _ := h.upWithLogin()
	p := newBrowser(t).open(in.login)
	p.see(testID("inbox"))
	asks := func(command string) []string {
		return []string{"ask", "--tool", "Bash", "--input", fmt.Sprintf(`{"command":%q}`, command), "--title", "Look"}
	}
	effect := h.file("effect.txt")
	first := start(t, h.env, "/bin/sh", "-c",
		fmt.Sprintf(`banksman ask --data %s --tool Bash --input '{"command":"git status"}' --title Look; echo "exit $?" >> %s`, h.data, effect))
	id := h.waiting(1)[0].ID
	require.Equal(t, id, p.card("git status"))
	p.click(within(id, "always"))
	p.click(`[role=menuitem]`)
	p.see(testID("rule-text"))
	p.holds(`document.querySelector("[data-testid=rule-text]").textContent.includes("exactly this command: git status")`)
	p.click(`[data-testid=rule-sheet] input[value=words]`)
	p.holds(`document.querySelector("[data-testid=rule-text]").textContent.includes("as a part of a longer command")`)
	require.Equal(t, "Make the rule and approve this", p.text(testID("rule-make")))
	p.click(testID("rule-make"))
	first.wait()
	require.Equal(t, []string{"exit 0"}, lines(t, effect))
	p.gone(testID("rule-sheet"))
	p.holds(fmt.Sprintf(`document.querySelector(%q).textContent.includes("Approved by a rule of")`, testID("receipt-"+id)))

	// Nobody is asked, and nobody is shown it.
	r := h.run(asks("git status 2>&1")...)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, `"kind":"rule"`)
	require.Empty(t, h.pending())
	// What only begins like it waits.
	second := start(t, h.env, "banksman", append(asks("git status; rm -rf /"), "--data", h.data)...)
	other := h.waiting(1)[0].ID
	require.Zero(t, h.run("decide", other, "deny", "--login", tokenFile).code)
	second.wait()

	r = h.run("rules", "--login", tokenFile)
	require.Zero(t, r.code, r.stderr)
	require.Regexp(t, `allow git status\s+.*active\s+.*\s2\b`, r.stdout)
	rule := strings.Fields(strings.Split(r.stdout, "\n")[1])[0]
	r = h.run("rules", "show", rule, "--login", tokenFile)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "Allows the command git status")
	require.Regexp(t, `(?s)allowed .*git status.*allowed .*git status`, r.stdout)
	p.run(chromedp.Navigate(in.url + "/#/rules"))
	p.see(testID("rule-" + rule))
	require.Zero(t, h.run("rules", "revoke", rule, "--login", tokenFile).code)
	p.see(fmt.Sprintf(`[data-testid="rule-%s"][data-state=revoked]`, rule))
	third := start(t, h.env, "banksman", append(asks("git status"), "--data", h.data)...)
	last := h.waiting(1)[0].ID
	require.Zero(t, h.run("decide", last, "deny", "--login", tokenFile).code)
	third.wait()
	r = h.run("rules", "revoke", "nothing", "--login", tokenFile)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "no such rule")
}
