package pushes

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// A point of P-256, its generator, and 16 bytes.
const (
	someKey  = "BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"
	someAuth = "AAAAAAAAAAAAAAAAAAAAAA"
)

// FuzzSubscription: what is taken can be told something over TLS, has keys that can be
// used, in one form, and holds no secret of an address; a refusal names the field.
func FuzzSubscription(f *testing.F) {
	const at = "https://push.example.com/send/x"
	for _, s := range []string{
		at, "", "http://push.example.com/", "http://127.0.0.1:1/x", "http://localhost/x", "http://localhost.evil.example/", "https://u:secret@push.example.com/", at + "#x", "https:", "https://", "https:///x", "https://:443/", "//push.example.com/", "javascript:alert(1)",
		"https://push.example.com/\x00", "https://push.example.com/ x", "https://[::1", "https://push.example.com:99999999/", "HTTPS://push.example.com/", "https://push.example.com/" + strings.Repeat("x", maxEndpoint), "\xff", "https://\xff/", "http://127.0.0.1@evil.example/", "https://h/\r\nX: y",
	} {
		f.Add(s, someKey, someAuth)
	}
	for _, s := range []string{"", someKey[:86], someKey + "=", someKey + "\n", someKey[:10] + "\r\n" + someKey[10:], "BA" + strings.Repeat("A", 85), strings.Repeat("A", 87), someKey[:86] + "V", "+" + someKey[1:], "\xff"} {
		f.Add(at, s, someAuth)
	}
	for _, s := range []string{"", someAuth[:21], someAuth + "A", someAuth + "\n", someAuth[:21] + "B", someAuth + "==", "\xff"} {
		f.Add(at, someKey, s)
	}
	f.Fuzz(func(t *testing.T, endpoint, p256dh, auth string) {
		inv := check("new.", &wire.PushSubscription{Endpoint: endpoint, Keys: wire.PushKeys{P256dh: p256dh, Auth: auth}})
		if inv != nil {
			require.Len(t, inv.Fields, 1)
			require.Contains(t, []string{"new.endpoint", "new.keys.p256dh", "new.keys.auth"}, inv.Fields[0].Field)
			if len(endpoint) > 40 {
				require.NotContains(t, inv.Error(), endpoint, "an address of a browser is a secret")
			}
			return
		}
		u, err := url.Parse(endpoint)
		require.NoError(t, err)
		require.NotEmpty(t, u.Hostname())
		require.Nil(t, u.User)
		if u.Scheme != "https" {
			require.Contains(t, []string{"127.0.0.1", "localhost"}, u.Hostname())
		}
		raw, err := base64.RawURLEncoding.DecodeString(p256dh)
		require.NoError(t, err)
		key, err := ecdh.P256().NewPublicKey(raw)
		require.NoError(t, err)
		require.Equal(t, p256dh, base64.RawURLEncoding.EncodeToString(key.Bytes()))
		raw, err = base64.RawURLEncoding.DecodeString(auth)
		require.NoError(t, err)
		require.Len(t, raw, 16)
		require.Equal(t, auth, base64.RawURLEncoding.EncodeToString(raw))
	})
}

// FuzzStored: whatever lies under a person, each browser that is told something has
// where and belongs to a sign-in; else nobody is told, and the log has the field only.
func FuzzStored(f *testing.F) {
	now := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	good, err := json.Marshal(list{V: 1, Since: now, Dropped: []dropped{{Session: "gone", Ends: now, At: now}}, Browsers: []browser{{
		PushSubscription: wire.PushSubscription{Endpoint: "https://push.example.com/send/x", Keys: wire.PushKeys{P256dh: someKey, Auth: someAuth}},
		Agent:            "Firefox", CreatedAt: now, Session: "s", Ends: now.Add(time.Hour), Renewal: "r",
	}}})
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:len(good)-1])
	for _, c := range [][2]string{
		{`"v":1`, `"v":2`},
		{`"v":1`, `"v":1e999`},
		{`"v":1`, `"V":1,"v":1`},
		{`"session":"s"`, `"session":""`},
		{`"session":"s"`, `"session":"s","session":"t"`},
		{`"session":"gone"`, `"session":""`},
		{`"dropped":[`, `"dropped":[null,`},
		{"https:", "http:"},
		{someAuth, ""},
		{someKey, someAuth},
		{"Firefox", "\xff"},
		{`"renewal":"r"`, `"renewal":["r"]`},
		{`"browsers":[`, `"browsers":[{},`},
		{`"browsers":[`, `"browsers":[null,`},
		{`"renewal":"r"`, `"renewal":` + strings.Repeat("[", 300) + strings.Repeat("]", 300)},
		{"2026-11-28T10:00:00Z", "never"},
	} {
		f.Add([]byte(strings.Replace(string(good), c[0], c[1], 1)))
	}
	for _, s := range []string{``, `null`, `[]`, `{}`, `{"v":1}`, `{"v":1,"browsers":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := decode(raw)
		if err != nil {
			var inv *hitl.InvalidError
			require.True(t, errors.As(err, &inv))
			require.NotEmpty(t, inv.Fields)
			require.Zero(t, l)
			return
		}
		require.NoError(t, hitl.CheckJSON(raw))
		require.Equal(t, 1, l.V)
		for _, b := range l.Browsers {
			require.Nil(t, check("", &b.PushSubscription))
			require.NotEmpty(t, b.Session)
		}
		for _, d := range l.Dropped {
			require.NotEmpty(t, d.Session)
		}
		again, err := json.Marshal(l)
		if err != nil {
			return // a year beyond 9999
		}
		same, err := decode(again)
		require.NoError(t, err)
		require.Len(t, same.Browsers, len(l.Browsers))
		require.True(t, l.Since.Equal(same.Since), "what was signed out stays so")
	})
}
