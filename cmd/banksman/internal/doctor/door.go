package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/banksman/banksman/pkg/metrics"
)

const (
	checkURL       = "address"
	checkTLS       = "certificate"
	checkWebSocket = "WebSocket"
	checkStatus    = "status"
	checkChannels  = "channels"
	checkVersions  = "versions"
)

// expiresSoon is when a certificate should have been renewed.
const expiresSoon = 14 * 24 * time.Hour

// maxPage bounds what is read of an answer, in bytes.
const maxPage = 4 << 20

// client trusts the system's certificates and those of --ca.
func (p *patient) client() (*http.Client, error) {
	var roots *x509.CertPool
	if p.ca != "" {
		pem, err := os.ReadFile(p.ca)
		if err != nil {
			return nil, err
		}
		if roots, err = x509.SystemCertPool(); err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", p.ca)
		}
	}
	return &http.Client{
		Timeout:       limit,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// get reads a page; the text is cut.
func get(ctx context.Context, c *http.Client, address string) (res *http.Response, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, "", err
	}
	if res, err = c.Do(req); err != nil {
		return nil, "", err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxPage))
	return res, string(raw), err
}

// door looks at the gateway as a browser reaches it.
func (p *patient) door(ctx context.Context) {
	if p.url == "" {
		p.skip(checkURL, "no banksman up runs on this data directory; name the address that people use with --url")
		return
	}
	base, err := url.Parse(strings.TrimRight(p.url, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		p.bad(checkURL, "give --url as https://host[:port]", "%q is no address of a gateway", p.url)
		return
	}
	c, err := p.client()
	if err != nil {
		p.bad(checkTLS, "name a file of certificates in PEM", "--ca: %v", err)
		return
	}
	before := time.Now()
	res, text, err := get(ctx, c, base.String()+"/readyz")
	after := time.Now()
	if err != nil {
		p.unreachable(base, err)
		return
	}
	p.certificate(res.TLS)
	switch ready := strings.Contains(text, `"ok":true`); {
	case res.StatusCode == http.StatusOK && ready:
		p.ok(checkURL, "a gateway answers at %s and is ready", base)
	case res.StatusCode == http.StatusServiceUnavailable && strings.Contains(text, "not ready"):
		p.bad(checkGateway, "mend what it says; it is ready again by itself", "the gateway at %s is not ready: %s", base, clip(text))
		return
	case res.StatusCode >= 502 && res.StatusCode <= 504:
		p.bad(checkURL, "start a gateway, or give the proxy the address that it listens on", "the proxy at %s reaches no gateway (status %d)", base, res.StatusCode)
		return
	default:
		p.bad(checkURL, "give --url, and the gateway's -base-url, the address of the gateway or of the proxy before it", "something else than a gateway answers at %s (status %d)", base, res.StatusCode)
		return
	}
	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		// It is cut to seconds.
		p.skew("the gateway's machine's", before.Add(-time.Second), after, date, 2*time.Second)
	}
	if res, _, err = get(ctx, c, base.String()+"/api/interactions"); err != nil {
		p.unreachable(base, err)
		return
	}
	if res.StatusCode == http.StatusMisdirectedRequest {
		p.bad(checkURL, "start the gateway with -base-url "+base.String()+", and let the proxy pass the Host header on as it is", "the gateway does not answer to the name %s", base.Host)
		return
	}
	p.webSocket(ctx, c, base)
}

func clip(s string) string {
	s = strings.TrimSpace(s)
	return s[:min(len(s), 300)]
}

func (p *patient) unreachable(base *url.URL, err error) {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		p.bad(checkTLS, "renew it, and find out why the proxy did not", "the certificate of %s has expired or is not valid yet: %v", base.Host, invalid)
	case errors.As(err, &name):
		p.bad(checkTLS, "get a certificate for this name, or use the name that it is for", "the certificate is not for %s: %v", base.Host, name)
	case errors.As(err, &unknown):
		p.bad(checkTLS, "name the authority's certificate with --ca; browsers need to trust it as well", "nobody that this machine trusts vouches for the certificate of %s", base.Host)
	default:
		p.bad(checkURL, "start the gateway, or its proxy; look at the name, the port and what stands between", "%s cannot be reached: %v", base, err)
	}
}

func (p *patient) certificate(s *tls.ConnectionState) {
	if s == nil || len(s.PeerCertificates) == 0 {
		return
	}
	// Authorities that issue for hours renew often.
	cert := s.PeerCertificates[0]
	soon := min(expiresSoon, cert.NotAfter.Sub(cert.NotBefore)/4)
	if left := time.Until(cert.NotAfter); left < soon {
		p.bad(checkTLS, "renew it, and find out why that did not happen by itself", "the certificate expires in %s, at %s", left.Round(time.Minute), cert.NotAfter.Format(time.RFC3339))
		return
	}
	p.ok(checkTLS, "it is good until %s", cert.NotAfter.Format(time.DateOnly))
}

// webSocket opens one as the page does, and closes it.
func (p *patient) webSocket(ctx context.Context, c *http.Client, base *url.URL) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dialer := *c
	dialer.Timeout = 0
	conn, res, err := websocket.Dial(ctx, base.String()+"/api/ws", &websocket.DialOptions{
		HTTPClient: &dialer, HTTPHeader: http.Header{"Origin": {base.Scheme + "://" + base.Host}},
	})
	switch {
	case err == nil:
		_ = conn.CloseNow()
		p.ok(checkWebSocket, "pages can open one")
	case res != nil && res.StatusCode == http.StatusForbidden:
		p.bad(checkWebSocket, "start the gateway with -base-url "+base.String(), "the gateway takes no page of the origin %s://%s", base.Scheme, base.Host)
	default:
		status := ""
		if res != nil {
			status = fmt.Sprintf(" (status %d)", res.StatusCode)
		}
		p.bad(checkWebSocket, "have the proxy pass WebSocket on: HTTP/1.1 to the gateway, with the Upgrade and Connection headers", "no WebSocket gets through to the gateway%s", status)
	}
}

var (
	buildLine   = regexp.MustCompile(`^banksman_build_info\{(.*)\} 1$`)
	channelLine = regexp.MustCompile(`^banksman_notifier_channels\{channel="(\w+)",state="(failing|gone)"\} (\d+)$`)
	socketLine  = regexp.MustCompile(`^banksman_notifier_sockets\{state="refused"\} [1-9]`)
	offsetLine  = regexp.MustCompile(`^banksman_clock_offset_seconds (\S+)$`)
	labelPair   = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// services reads what services say of themselves.
func (p *patient) services(ctx context.Context) {
	p.built = map[string][]string{}
	version, revision := metrics.Version()
	p.build("this program", version, revision)
	if len(p.status) == 0 {
		p.skip(checkStatus, "no service's -status is known: versions and channels are not looked at; name them with --status, or start banksman up with it")
		return
	}
	c := &http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, address := range p.status {
		if !strings.Contains(address, "://") {
			address = "http://" + address
		}
		address = strings.TrimRight(address, "/")
		res, text, err := get(ctx, c, address+"/readyz")
		if err != nil {
			p.bad(checkStatus, "start the service, or correct the address; -status says where it listens", "%s cannot be reached: %v", address, err)
			continue
		}
		if res.StatusCode != http.StatusOK {
			p.bad(checkStatus, "mend what it says; it is ready again by itself", "the service at %s says: %s", address, clip(text))
		} else {
			p.ok(checkStatus, "the service at %s is ready", address)
		}
		if _, text, err = get(ctx, c, address+"/metrics"); err != nil || !strings.Contains(text, "\nbanksman_build_info{") {
			p.bad(checkStatus, "give --status the address that the service has as -status; it is another one than that of people", "%s/metrics has nothing of a service", address)
			continue
		}
		for line := range strings.Lines(text) {
			p.read(strings.TrimSpace(line), address)
		}
	}
}

// read takes one line of a service's metrics.
func (p *patient) read(line, address string) {
	if m := buildLine.FindStringSubmatch(line); m != nil {
		labels := map[string]string{}
		for _, l := range labelPair.FindAllStringSubmatch(m[1], -1) {
			labels[l[1]] = l[2]
		}
		p.build(labels["program"], labels["version"], labels["revision"])
	}
	if m := channelLine.FindStringSubmatch(line); m != nil && m[3] != "0" {
		if m[2] == "gone" {
			p.bad(checkChannels, "give the channel another name, address or token in the notifier's configuration", "a receiver of type %s wants no more messages and gets none", m[1])
		} else {
			p.bad(checkChannels, "banksman notify test says what the provider answers; then mend the channel's address, token or network", "the last messages over %s failed", m[1])
		}
	}
	if socketLine.MatchString(line) {
		p.bad(checkChannels, "give the channel a new app_token in the notifier's configuration; the notifier's log has the provider's word", "a chat's provider does not take the token of the app: what is pressed there does not arrive")
	}
	if m := offsetLine.FindStringSubmatch(line); m != nil {
		by, err := strconv.ParseFloat(m[1], 64)
		if d := time.Duration(by * float64(time.Second)); err == nil && d.Abs() > maxSkew {
			p.bad(checkClock, "run a time service (chrony, systemd-timesyncd) on both machines", "the clock of the gateway at %s is %s off the NATS server's", address, d.Round(time.Millisecond))
		}
	}
}

func (p *patient) build(program, version, revision string) {
	key := version + " (" + revision + ")"
	if !slices.Contains(p.built[key], program) {
		p.built[key] = append(p.built[key], program)
	}
}

// versions compares what was built from what.
func (p *patient) versions() {
	if len(p.built) < 2 {
		if _, revision := metrics.Version(); revision == metrics.Unknown && metrics.Stamp == "" {
			p.skip(checkVersions, "this program does not say what it was built from")
			return
		}
		p.ok(checkVersions, "all that is known of is the same build")
		return
	}
	var all []string
	for _, v := range slices.Sorted(maps.Keys(p.built)) {
		all = append(all, strings.Join(p.built[v], ", ")+": "+v)
	}
	p.bad(checkVersions, "bring all parts to one version; docs/deploy.md says in which order", "parts are of different versions: %s", strings.Join(all, "; "))
}
