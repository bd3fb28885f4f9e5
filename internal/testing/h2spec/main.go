// Command h2spec runs h2spec, which checks how a server speaks HTTP/2, against a server of net/http
// and against the same server behind an interception proxy. No case may fail behind the proxy that
// passes without it.
//
//	go run ./internal/testing/h2spec
//
// The version of h2spec is in tools/go.mod.
package main

import (
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee/internal/testing/mitmfront"
	"perigee/internal/testing/testenv"
)

const (
	tool     = "github.com/summerwind/h2spec/cmd/h2spec"
	patience = 10 * time.Minute // for everything, which takes 20 seconds
	answer   = "5"              // seconds in which a server has to answer a case, on a machine that is busy; h2spec's own limit is 2
)

func main() {
	if err := check(); err != nil {
		fmt.Fprintln(os.Stderr, "h2spec:", err)
		os.Exit(1)
	}
}

func check() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dir, err := os.MkdirTemp("", "h2spec-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := runner{binary: filepath.Join(dir, "h2spec"), dir: dir}
	if out, err := exec.CommandContext(ctx, "go", "build", "-modfile=tools/go.mod", "-o", r.binary, tool).CombinedOutput(); err != nil {
		return fmt.Errorf("build h2spec: %w\n%s", err, out)
	}
	server, roots, err := serve()
	if err != nil {
		return err
	}
	defer server.Close()
	behind, err := mitmfront.Open(server.Addr, roots)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, behind.Close()) }()
	_, port, _ := net.SplitHostPort(server.Addr)
	return r.compare(ctx, port, fmt.Sprint(behind.Addr.Port))
}

// serve starts a server that reads requests and answers with a body. Its Addr is where it listens.
func serve() (*http.Server, []byte, error) {
	now := time.Now()
	cert, key, err := testenv.Certificate("h2spec", now.Add(-time.Hour), now.Add(time.Hour))
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{
		Addr: l.Addr().String(), TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0), // h2spec sends what is not allowed
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, strings.Repeat("answer ", 100))
		}),
	}
	go func() { _ = server.ServeTLS(l, "", "") }()
	return server, cert, nil
}

type runner struct{ binary, dir string }

// compare runs all cases against both ports at the same time: most of the time of a run is spent
// waiting.
func (r runner) compare(ctx context.Context, direct, proxied string) error {
	var results [2]map[string]bool
	var errs [2]error
	var group sync.WaitGroup
	began := time.Now()
	for i, port := range []string{direct, proxied} {
		group.Go(func() { results[i], errs[i] = r.run(ctx, port) })
	}
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	var worse []string
	for name, passed := range results[0] {
		if _, ok := results[1][name]; !ok {
			return fmt.Errorf("%s was not run behind the proxy", name)
		}
		if passed && !results[1][name] {
			worse = append(worse, name)
		}
	}
	fmt.Printf("h2spec: %d cases, %d fail with net/http, %d behind the proxy, %.0f s\n",
		len(results[0]), failed(results[0]), failed(results[1]), time.Since(began).Seconds())
	if len(results[0]) < 100 || len(results[1]) != len(results[0]) {
		return fmt.Errorf("%d and %d cases were run, of more than 100", len(results[0]), len(results[1]))
	}
	if len(worse) > 0 {
		slices.Sort(worse)
		return fmt.Errorf("these fail behind the proxy alone; to see one, run h2spec -t -k -h %s with its number:\n%s",
			mitmfront.Host, strings.Join(worse, "\n"))
	}
	return nil
}

// run returns which cases passed.
func (r runner) run(ctx context.Context, port string) (map[string]bool, error) {
	report, err := os.CreateTemp(r.dir, "report-")
	if err != nil {
		return nil, err
	}
	defer report.Close()
	out, err := exec.CommandContext(ctx, r.binary, "--tls", "--insecure", "--timeout", answer, "--host", mitmfront.Host, "--port", port,
		"--junit-report", report.Name()).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) { // it exits with 1 if a case fails
		return nil, fmt.Errorf("run h2spec: %w\n%s", errors.Join(err, ctx.Err()), out)
	}
	var suites struct {
		Suites []struct {
			Cases []struct {
				Section string    `xml:"package,attr"`
				Name    string    `xml:"classname,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.NewDecoder(report).Decode(&suites); err != nil {
		return nil, fmt.Errorf("read the report of h2spec: %w\n%s", err, out)
	}
	results := map[string]bool{}
	for _, suite := range suites.Suites {
		for _, c := range suite.Cases {
			results[c.Section+" "+c.Name] = c.Failure == nil && c.Error == nil && c.Skipped == nil
		}
	}
	return results, nil
}

func failed(results map[string]bool) (n int) {
	for _, passed := range results {
		if !passed {
			n++
		}
	}
	return n
}
