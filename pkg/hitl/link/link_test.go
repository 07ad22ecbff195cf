package link_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl/link"
)

func input(t *testing.T, address string) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(map[string]string{"url": address})
	require.NoError(t, err)
	return raw
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
		l, ok := link.Read(link.Tool, input(t, c.address))
		require.True(t, ok)
		require.Equal(t, c.caution, l.Caution, c.address)
		require.Equal(t, c.host, l.Host, c.address)
		if c.host != "" {
			require.Equal(t, c.address, l.Address)
		} else {
			require.Empty(t, l.Address, "nobody is led there: %q", c.address)
		}
	}
	l, ok := link.Read(link.Tool, json.RawMessage(`{"url":["https://example.com"]}`))
	require.True(t, ok)
	require.Equal(t, link.Link{Caution: "brings no address"}, l)
	_, ok = link.Read("WebFetch", input(t, "https://example.com"))
	require.False(t, ok)
}
