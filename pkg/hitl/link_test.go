package hitl_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func link(t *testing.T, address string) *hitl.Tool {
	t.Helper()
	input, err := hitl.Marshal(map[string]string{"url": address})
	require.NoError(t, err)
	return &hitl.Tool{Name: hitl.ToolOpenLink, Server: "tickets", Input: input}
}

// A host is spelled out: no letter of it passes for another one, and what a
// browser would read in another way than a person is not offered to be opened.
func TestReadLink_B54_invariant10(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ address, host, caution string }{
		{"https://tickets.example.com/connect?id=1#x", "tickets.example.com", ""},
		{"https://TICKETS.Example.com:8443/", "tickets.example.com:8443", ""},
		{"http://tickets.example.com/", "tickets.example.com", "is not encrypted"},
		{"https://g\u0456thub.com/", "g⟦U+0456⟧thub.com", "has letters in the name of its host that can look like others"},
		{"https://github\u2024com.example/", "github⟦U+2024⟧com.example", "has letters in the name of its host that can look like others"},
		{"https://github.com\uff0fevil.example/", "github.com⟦U+FF0F⟧evil.example", "has letters in the name of its host that can look like others"},
		{"https://xn--gthub-n4a.com/", "xn--gthub-n4a.com", "has a host (xn--) that a browser may show as another name"},
		{"https://www.XN--gthub-n4a.com/", "www.xn--gthub-n4a.com", "has a host (xn--) that a browser may show as another name"},
		{"http://127.0.0.1:8080/", "127.0.0.1:8080", "leads to this machine or its network"},
		{"https://[::1]/", "::1", "leads to this machine or its network"},
		{"https://192.168.1.1/", "192.168.1.1", "leads to this machine or its network"},
		{"https://api.localhost/", "api.localhost", "leads to this machine or its network"},
		{"https://203.0.113.9/", "203.0.113.9", "names its host by a number"},
		{"http://2130706433/", "2130706433", "names its host by a number"},
		{"http://0x7f.0x1/", "0x7f.0x1", "names its host by a number"},
		{"https://github.com%2eevil.example/", "", "is no address with a host"},
		{"https://github.com@evil.example/", "", "hides its host behind a name and an @"},
		{"https://github.com\\@evil.example/", "", "is no address with a host"},
		{"https:\\\\evil.example", "", "is no address with a host"},
		{"https://evil.example/a\\..\\b", "", "has characters that browsers and people read in different ways"},
		{"https://example.com/\u202egpj.exe", "", "has characters that browsers and people read in different ways"},
		{"https://exa\u200bmple.com/", "", "has characters that browsers and people read in different ways"},
		{"https://example.com/\tx", "", "is no address with a host"},
		{"javascript:alert(1)", "", "is no address with a host"},
		{"data:text/html,x", "", "is no address with a host"},
		{"file:///etc/passwd", "", "is no address with a host"},
		{"ftp://example.com/", "", "is no web address"},
		{"vscode://example.com/x", "", "is no web address"},
		{"//example.com/", "", "is no web address"},
		{"example.com", "", "is no address with a host"},
		{"", "", "is no address with a host"},
	} {
		l, ok := hitl.ReadLink(link(t, c.address))
		require.True(t, ok)
		require.Equal(t, c.caution, l.Caution, c.address)
		require.Equal(t, c.host, l.Host, c.address)
		if c.host != "" {
			require.Equal(t, c.address, l.Address)
		} else {
			require.Empty(t, l.Address, "nobody is led there: %q", c.address)
		}
	}
	l, ok := hitl.ReadLink(&hitl.Tool{Name: hitl.ToolOpenLink, Input: json.RawMessage(`{"url":["https://example.com"]}`)})
	require.True(t, ok)
	require.Equal(t, hitl.Link{Caution: "brings no address"}, l)
	_, ok = hitl.ReadLink(&hitl.Tool{Name: "WebFetch", Input: json.RawMessage(`{"url":"https://example.com"}`)})
	require.False(t, ok)
}

// The host stands in the headline and in a row of its own; the address and all
// else that the request brings are shown too.
func TestLinkView_B54_invariant10(t *testing.T) {
	t.Parallel()
	r := &hitl.Request{Kind: hitl.KindApproval, AgentName: "Claude Code", Tool: link(t, "https://g\u0456thub.com/login"), URL: "https://other.example/\u202e"}
	require.Equal(t, "Claude Code wants to have you open a page of g⟦U+0456⟧thub.com", hitl.Headline(r))
	blocks := hitl.View(r)
	require.Equal(t, []string{"Host", "Address", "Address"}, []string{blocks[0].Label, blocks[1].Label, blocks[2].Label})
	require.Equal(t, "g⟦U+0456⟧thub.com", blocks[0].Text)
	require.Equal(t, "https://g\u0456thub.com/login", blocks[1].Text)
	require.Equal(t, "https://other.example/⟦U+202E⟧", blocks[2].Text, "an address of any request is shown")

	r.Tool = link(t, "javascript:alert(1)")
	require.Equal(t, "Claude Code wants to have you open a page", hitl.Headline(r))
	require.Equal(t, "javascript:alert(1)", hitl.View(r)[0].Text)
	r.Tool.Input = json.RawMessage(`{"url":5,"more":1}`)
	require.True(t, strings.Contains(hitl.View(r)[0].Text, `"more": 1`), "%v", hitl.View(r))
}
