package push

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/bus/credential"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 3, 2, 11, 0, 0, 0, time.UTC) // an hour before the alerts' deadline

// browser has the half of a subscription that never leaves it.
type browser struct {
	key  *ecdh.PrivateKey
	auth []byte
}

func newBrowser(t testing.TB) *browser {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(t, err)
	b := &browser{key, make([]byte, 16)}
	_, _ = rand.Read(b.auth)
	return b
}

func (b *browser) target(id, endpoint string) wire.PushTarget {
	e := base64.RawURLEncoding.EncodeToString
	return wire.PushTarget{ID: id, Endpoint: endpoint, P256dh: e(b.key.PublicKey().Bytes()), Auth: e(b.auth)}
}

// open reads a body as a browser does, by no code of the package.
func (b *browser) open(body []byte) ([]byte, error) {
	if len(body) < 86 || len(body) > 4096 || body[20] != 65 {
		return nil, errors.New("not a body of aes128gcm with a point in its head")
	}
	size := binary.BigEndian.Uint32(body[16:20])
	if rest := len(body) - 86; rest > int(size) {
		return nil, errors.New("more than one record")
	}
	sender, err := ecdh.P256().NewPublicKey(body[21:86])
	if err != nil {
		return nil, err
	}
	shared, err := b.key.ECDH(sender)
	if err != nil {
		return nil, err
	}
	step := func(prk []byte, info string, n int) []byte {
		out, err := hkdf.Expand(sha256.New, prk, info, n)
		if err != nil {
			panic(err)
		}
		return out
	}
	prk, err := hkdf.Extract(sha256.New, shared, b.auth)
	if err != nil {
		return nil, err
	}
	ikm := step(prk, "WebPush: info\x00"+string(b.key.PublicKey().Bytes())+string(sender.Bytes()), 32)
	if prk, err = hkdf.Extract(sha256.New, ikm, body[:16]); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(step(prk, "Content-Encoding: aes128gcm\x00", 16))
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, step(prk, "Content-Encoding: nonce\x00", 12), body[86:], nil)
	if err != nil {
		return nil, err
	}
	end := strings.TrimRight(string(plain), "\x00")
	text, last := strings.CutSuffix(end, "\x02")
	if !last {
		return nil, errors.New("the last record has no delimiter")
	}
	return []byte(text), nil
}

// gateway knows the browsers of everybody.
type gateway struct {
	mu       sync.Mutex
	browsers []wire.PushTarget
	gone     []string
	calls    []wire.PushCall
	fail     error
}

func (g *gateway) Call(_ context.Context, verb string, in, out any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if verb != wire.VerbPush || g.fail != nil {
		return g.fail
	}
	g.calls = append(g.calls, in.(wire.PushCall))
	g.gone = append(g.gone, in.(wire.PushCall).Gone...)
	out.(*wire.PushReply).Browsers = g.browsers
	return nil
}

func open(t testing.TB, g *gateway, change ...func(*Options)) *Channel {
	t.Helper()
	key, err := credential.NewPushKey()
	require.NoError(t, err)
	o := Options{
		Key: func() string { return key }, Gateway: func() Gateway { return g }, Clock: func() time.Time { return now },
		Contact: "mailto:ops@example.com", AllowPrivate: true,
	}
	for _, fn := range change {
		fn(&o)
	}
	c, err := New(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// vapid checks a request's Authorization as a push service does.
func vapid(r *http.Request) error {
	fields, ok := strings.CutPrefix(r.Header.Get("Authorization"), "vapid t=")
	token, k, cut := strings.Cut(fields, ", k=")
	parts := strings.Split(token, ".")
	if !ok || !cut || len(parts) != 3 {
		return errors.New("not vapid: " + r.Header.Get("Authorization"))
	}
	d := func(s string) []byte {
		raw, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil {
			panic(err)
		}
		return raw
	}
	point := d(k)
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return err
	}
	sig := d(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if len(sig) != 64 || !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return errors.New("a wrong signature")
	}
	var head, claims map[string]any
	if err := errors.Join(json.Unmarshal(d(parts[0]), &head), json.Unmarshal(d(parts[1]), &claims)); err != nil {
		return err
	}
	exp, _ := claims["exp"].(float64)
	switch {
	case head["alg"] != "ES256" || head["typ"] != "JWT":
		return errors.New("a wrong head")
	case claims["aud"] != "http://"+r.Host || claims["sub"] != "mailto:ops@example.com":
		return errors.New("for somebody else: " + string(d(parts[1])))
	case exp <= float64(now.Unix()) || exp > float64(now.Add(24*time.Hour).Unix()):
		return errors.New("at the wrong time")
	}
	return nil
}

// service is a push service that one browser listens to.
func service(b *browser, g *gateway, sent func(Message, http.Header)) channeltest.Provider {
	return channeltest.Provider{
		Make: func(t *testing.T, url string) channel.Channel {
			t.Helper()
			g.browsers = []wire.PushTarget{b.target("b1", url+"/push/ENDPOINTSECRET")}
			return open(t, g)
		},
		Read: func(t *testing.T, r *http.Request, body []byte) channeltest.Received {
			t.Helper()
			raw, err := b.open(body)
			var m Message
			if err := errors.Join(err, json.Unmarshal(raw, &m), vapid(r)); err != nil {
				t.Errorf("not a push: %v", err)
			}
			if r.Header.Get("Content-Encoding") != "aes128gcm" || r.Method != http.MethodPost || r.URL.Path != "/push/ENDPOINTSECRET" || r.Header.Get("TTL") == "" {
				t.Errorf("not a push: %s %s %v", r.Method, r.URL, r.Header)
			}
			if topic := r.Header.Get("Topic"); topic != m.Tag || len(topic) > 32 {
				t.Errorf("topic %q, tag %q", topic, m.Tag)
			}
			if sent != nil {
				sent(m, r.Header)
			}
			got := channeltest.Received{ID: m.Tag, Text: m.Title + "\n" + m.Body + "\n" + m.Link}
			if m.Type == "closed" {
				got.Changes = m.Tag
			}
			return got
		},
		Reply: func(w http.ResponseWriter, a channeltest.Answer, _ channeltest.Received) {
			switch a {
			case channeltest.Later:
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusTooManyRequests)
			case channeltest.Refuse:
				w.WriteHeader(http.StatusRequestEntityTooLarge)
			case channeltest.Gone:
				w.WriteHeader(http.StatusGone)
			default:
				w.WriteHeader(http.StatusCreated)
			}
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	channeltest.Run(t, channeltest.Options{
		New: service(b, &gateway{}, nil).New, Secrets: []string{"ENDPOINTSECRET"}, Updates: true, Keyed: true,
		Can: []channeltest.Answer{channeltest.Take, channeltest.Later, channeltest.Refuse, channeltest.Silent},
	})
}

// The examples of RFC 8291, section 5 and appendix A, byte by byte.
func TestTheExampleOfTheRFC(t *testing.T) {
	t.Parallel()
	d := func(s string) []byte {
		raw, err := base64.RawURLEncoding.DecodeString(s)
		require.NoError(t, err)
		return raw
	}
	own, err := ecdh.P256().NewPrivateKey(d("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
	require.NoError(t, err)
	r, err := readReceiver("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4", "BTBZMqHH6r4Tts7J_aSIgg")
	require.NoError(t, err)
	const text = "When I grow up, I want to be a watermelon"
	body, err := r.encryptWith([]byte(text), own, [16]byte(d("DGv6ra1nlYgDCS1FRnbzlw")))
	require.NoError(t, err)
	require.Equal(t, "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_"+
		"yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN", base64.RawURLEncoding.EncodeToString(body))
	key, err := ecdh.P256().NewPrivateKey(d("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"))
	require.NoError(t, err)
	got, err := (&browser{key, d("BTBZMqHH6r4Tts7J_aSIgg")}).open(body)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

// FuzzEncrypt: a browser reads what was meant for it, no other browser does, and no
// body is longer than push services take.
func FuzzEncrypt(f *testing.F) {
	for _, n := range []int{0, 1, 100, MaxText, MaxText + 1} {
		f.Add([]byte(strings.Repeat("x", n)))
	}
	b, other := newBrowser(f), newBrowser(f)
	to := b.target("", "")
	r, err := readReceiver(to.P256dh, to.Auth)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text []byte) {
		body, err := r.encrypt(text)
		if len(text) > MaxText {
			require.ErrorIs(t, err, errTooLong)
			return
		}
		require.NoError(t, err)
		require.LessOrEqual(t, len(body), 4096)
		got, err := b.open(body)
		require.NoError(t, err)
		require.Equal(t, strings.TrimRight(string(text), "\x00"), strings.TrimRight(string(got), "\x00"))
		_, err = other.open(body)
		require.Error(t, err)
	})
}

// A subscription that says nonsense gets nothing, and no error repeats it.
func TestAReceiverIsAPointAndASecret(t *testing.T) {
	t.Parallel()
	b := newBrowser(t).target("", "")
	for _, bad := range [][2]string{{"", b.Auth}, {b.P256dh, ""}, {b.P256dh[:20], b.Auth}, {b.P256dh, b.P256dh}, {"SECRET!", b.Auth}, {base64.RawURLEncoding.EncodeToString(make([]byte, 65)), b.Auth}} {
		_, err := readReceiver(bad[0], bad[1])
		require.Error(t, err)
		require.NotContains(t, err.Error(), "SECRET")
	}
}

func send(t *testing.T, a channel.Alert, change ...func(*Options)) (Message, http.Header, error) {
	t.Helper()
	b, g := newBrowser(t), &gateway{}
	var m Message
	var head http.Header
	p := service(b, g, func(got Message, h http.Header) { m, head = got, h })
	p.Make = func(t *testing.T, url string) channel.Channel {
		g.browsers = []wire.PushTarget{b.target("b1", url+"/push/ENDPOINTSECRET")}
		return open(t, g, change...)
	}
	_, err := p.New(t).Channel(t).Send(t.Context(), a)
	return m, head, err
}

// Buttons stand where a ticket is, and one to approve only beneath the whole of what
// it lets go on.
func TestButtonsOfANotification(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		act     *channel.Act
		actions []string
	}{
		"no ticket":         {nil, nil},
		"deny only":         {&channel.Act{Token: "ticket_x", Text: "make test"}, []string{"deny"}},
		"the whole is seen": {&channel.Act{Token: "ticket_x", Allow: true, Text: "make test"}, []string{"deny", "allow"}},
		"as many lines":     {&channel.Act{Token: "ticket_x", Allow: true, Text: "make test\n\n" + strings.Repeat("x", 80)}, []string{"deny", "allow"}},
		"broken lines":      {&channel.Act{Token: "ticket_x", Allow: true, Text: strings.Repeat("x", 41) + "\n" + strings.Repeat("x", 41) + "\nrm"}, []string{"deny"}},
		"empty lines":       {&channel.Act{Token: "ticket_x", Allow: true, Text: "a\n\n\n\nrm"}, []string{"deny"}},
		"wide letters":      {&channel.Act{Token: "ticket_x", Allow: true, Text: "make 試験"}, []string{"deny"}},
		"a tab":             {&channel.Act{Token: "ticket_x", Allow: true, Text: "make\ttest"}, []string{"deny"}},
		"other letters":     {&channel.Act{Token: "ticket_x", Allow: true, Text: "mаke test"}, []string{"deny"}},
		"too long":          {&channel.Act{Token: "ticket_x", Allow: true, Text: strings.Repeat("x", 161)}, []string{"deny"}},
		"too many lines":    {&channel.Act{Token: "ticket_x", Allow: true, Text: "a\nb\nc\nd\nrm -rf /"}, []string{"deny"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := channeltest.Alert(channel.Opened)
			a.Act = want.act
			m, head, err := send(t, a)
			require.NoError(t, err)
			require.Equal(t, want.actions, m.Actions)
			require.Equal(t, want.act != nil, m.Token != "")
			require.Equal(t, len(want.actions) == 2, want.act != nil && strings.HasPrefix(m.Body, want.act.Text+"\n"))
			require.Equal(t, "t.o.i", m.Key)
			require.Equal(t, a.Data.ExpiresAt.UnixMilli(), m.Until)
			require.Equal(t, []string{"3600", "high"}, []string{head.Get("TTL"), head.Get("Urgency")})
		})
	}
}

// What is grave stays off a locked screen where the configuration says so.
func TestRedactedByRisk(t *testing.T) {
	t.Parallel()
	hide := func(o *Options) { o.Redact = []string{"high"} }
	a := channeltest.Alert(channel.Opened)
	a.Act = &channel.Act{Token: "ticket_x", Allow: true, Text: "make test"}
	m, _, err := send(t, a, hide)
	require.NoError(t, err)
	require.Equal(t, Message{V: 1, Type: "opened", Key: "t.o.i", Tag: Topic(&a), Title: "A request with high risk waits for you", Risk: "high", Until: a.Data.ExpiresAt.UnixMilli(), Link: a.Data.Link}, m)
	m, _, err = send(t, channeltest.Alert(channel.Closed), hide)
	require.NoError(t, err)
	require.Equal(t, "Denied by Bob", m.Title)
	require.Empty(t, m.Body)
	a.Data.Risk = "low"
	m, head, err := send(t, a, hide)
	require.NoError(t, err)
	require.Contains(t, m.Body, "make test")
	require.Equal(t, "normal", head.Get("Urgency"))
}

// Of several browsers those that are gone are forgotten, and an attempt after a
// failure goes to those only that have it not.
func TestEachBrowserForItself(t *testing.T) {
	t.Parallel()
	g := &gateway{}
	status := map[string]int{"b1": 201, "b2": 410, "b3": 503, "b4": 404}
	calls := map[string]int{}
	var mu sync.Mutex
	srv := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		id := strings.TrimPrefix(r.URL.Path, "/")
		calls[id]++
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status[id])
	})
	for i := range 4 {
		id := "b" + strconv.Itoa(i+1)
		g.browsers = append(g.browsers, newBrowser(t).target(id, srv+"/"+id))
	}
	c := open(t, g)
	_, err := c.Send(t.Context(), channeltest.Alert(channel.Opened))
	var p *channel.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, channel.Retry, p.Class)
	require.Equal(t, 7*time.Second, p.RetryAfter)
	require.ElementsMatch(t, []string{"b2", "b4"}, g.gone)
	g.browsers = []wire.PushTarget{g.browsers[0], g.browsers[2]}
	status["b3"] = 201
	r, err := c.Send(t.Context(), channeltest.Alert(channel.Opened))
	require.NoError(t, err)
	require.Equal(t, "taken for 2 of 2 browsers", r.Said)
	require.Equal(t, map[string]int{"b1": 1, "b2": 1, "b3": 2, "b4": 1}, calls)
	// The same request's next alert goes to all again.
	a := channeltest.Alert(channel.Reminder)
	_, err = c.Send(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, 2, calls["b1"])

	status["b1"], status["b3"] = 410, 410
	_, err = c.Send(t.Context(), a)
	require.ErrorAs(t, err, &p)
	require.Equal(t, channel.Refused, p.Class)
	g.browsers = nil
	_, err = c.Send(t.Context(), a)
	require.ErrorAs(t, err, &p)
	require.True(t, p.Idle, "nobody to tell is no fault")
	g.fail = errors.New("away")
	_, err = c.Send(t.Context(), a)
	require.ErrorAs(t, err, &p)
	require.Equal(t, channel.Retry, p.Class)
}

// A subscription leads nowhere inside: not to the machine, not to its network, not
// in the clear.
// Where everybody is told, the gateway hears of what, because it knows who may decide it;
// at most so many pushes are under way.
func TestEverybodyIsToldByTheirRights(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now, most := 0, 0
	full := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		now++
		if most = max(most, now); now == atOnce {
			close(full)
		}
		mu.Unlock()
		<-full
		mu.Lock()
		now--
		mu.Unlock()
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(s.Close)
	g, b := &gateway{}, newBrowser(t)
	c := open(t, g)
	a := channeltest.Alert(channel.Opened)
	a.To = wire.Everybody
	_, err := c.Send(t.Context(), a)
	require.ErrorContains(t, err, "no browser of anybody who may decide this wants pushes")
	for i := range 2 * atOnce {
		g.browsers = append(g.browsers, b.target(strconv.Itoa(i), s.URL))
	}
	r, err := c.Send(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, "taken for 64 of 64 browsers", r.Said)
	require.Equal(t, []wire.PushCall{{User: "*", Key: a.Key}, {User: "*", Key: a.Key}}, g.calls)
	require.Equal(t, atOnce, most)
	a.Key, a.To = "test", "ada"
	_, err = c.Send(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, wire.PushCall{User: "ada"}, g.calls[2])
	require.Empty(t, CheckTo("ada"))
	require.Contains(t, CheckTo("*"), "no routes")
}

func TestEndpointsAreOutside(t *testing.T) {
	t.Parallel()
	reached := false
	srv := newServer(t, func(http.ResponseWriter, *http.Request) { reached = true })
	u, err := url.Parse(srv)
	require.NoError(t, err)
	for _, at := range []string{srv, "https://" + u.Host + "/x", "https://169.254.169.254/latest", "https://[::1]:1/", "https://u:p@example.com/", "ftp://example.com/"} {
		g := &gateway{browsers: []wire.PushTarget{newBrowser(t).target("b", at)}}
		_, err := open(t, g, func(o *Options) { o.AllowPrivate = false }).Send(t.Context(), channeltest.Alert(channel.Opened))
		require.Error(t, err, at)
		require.NotContains(t, err.Error(), "latest")
	}
	require.False(t, reached)
}

func TestNewNamesTheField(t *testing.T) {
	t.Parallel()
	_, err := New(Options{Contact: "ops"})
	require.ErrorContains(t, err, "from: must begin with mailto:")
	_, err = New(Options{Redact: []string{"grave"}})
	require.ErrorContains(t, err, "redact: are risks")
	require.Empty(t, CheckTo("owner"))
	require.NotEmpty(t, CheckTo(""))
	require.Equal(t, []string{"https://b.test", "mailto:x", ""}, []string{Contact("", "https://b.test"), Contact("mailto:x", "http://b.test"), Contact("", "urn:x")})
	for _, key := range []string{"", "SECRET!", "AAAA"} {
		_, err := open(t, &gateway{}, func(o *Options) { o.Key = func() string { return key } }).Send(t.Context(), channeltest.Alert(channel.Test))
		require.ErrorContains(t, err, "key")
		require.NotContains(t, err.Error(), "SECRET")
	}
}
