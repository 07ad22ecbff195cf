// Command issuer is the OpenID Connect issuer of the browser tests. It prints its
// address and serves until it is killed.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/banksman/banksman/services/gateway/internal/issuer/issuertest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "issuer:", err)
		os.Exit(1)
	}
}

func run() error {
	redirect := flag.String("redirect", "", "where people are sent back to")
	raw := flag.String("people", "", "JSON object of people, each with the claims of their tokens")
	flag.Parse()
	people := map[string]map[string]any{}
	if err := json.Unmarshal([]byte(*raw), &people); err != nil {
		return fmt.Errorf("-people: %w", err)
	}
	p, err := issuertest.New()
	if err != nil {
		return err
	}
	p.Redirect, p.People = *redirect, slices.Sorted(maps.Keys(people))
	p.Fill = func(who string, claims map[string]any) { maps.Copy(claims, people[who]) }
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	p.URL = "http://" + l.Addr().String()
	fmt.Println(p.URL)
	return (&http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}
