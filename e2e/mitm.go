package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// curlInstall is Debian's curl, which has HTTP/2.
const curlInstall = "curl"

func installCurl(ctx context.Context) (fresh bool, err error) {
	if _, err := exec.LookPath("curl"); err != nil {
		if err := installDebian(ctx, "curl"); err != nil {
			return false, err
		}
		fresh = true
	}
	version, err := exec.CommandContext(ctx, "curl", "--version").Output()
	if err == nil && !bytes.Contains(version, []byte("HTTP2")) {
		err = errors.New("this curl has no HTTP/2")
	}
	return fresh, err
}

// observers are programs that look at traffic with perigee mitm.
func observers() []client {
	return []client{{
		name: "perigee mitm", version: "curl", install: curlInstall, scenarios: []string{http1, http2}, together: true,
		run: eachVersion(observe),
	}}
}

const mitmSecret = "a-secret-of-curl"

// observe has curl ask a server through perigee mitm, which prints and records what has passed,
// without secrets.
func observe(ctx context.Context, s *stage, version string) error {
	name := "mitm-" + shortVersion[version]
	cloud, err := newTLSCloud(ctx, s, name+"-cloud", version)
	if err != nil {
		return err
	}
	defer cloud.close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	cloud.serve(listener)
	har := filepath.Join(s.dir, name+".har")
	mitm, err := s.launch(ctx, name, s.binary, "mitm", "--listen", "127.0.0.1:0", "--host", "localhost", "--upstream-ca", cloud.certificate, "--har", har, "--json")
	if err != nil {
		return err
	}
	defer mitm.stop()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	o := &observation{proxy: mitm.address, version: version}
	const body = `{"contents":[{"role":"user","parts":[{"text":"[[text: hello from curl]]"}]}]}`
	path := "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse&key=" + mitmSecret
	authority := filepath.Join(s.dir, name, "data", "ca", "mitm", "ca.pem")
	answer, err := o.curl(ctx, authority, "https://localhost:"+port+path, body)
	if err != nil {
		return err
	}
	if !strings.Contains(answer, "hello") {
		return fmt.Errorf("curl got %q", answer)
	}
	// An address is never intercepted.
	if _, err := o.curl(ctx, cloud.certificate, "https://127.0.0.1:"+port+path, body); err != nil {
		return err
	}
	flows, err := o.await(ctx, mitm)
	if err != nil {
		return err
	}
	mitm.end(os.Interrupt)
	recorded, err := os.ReadFile(har)
	if err != nil {
		return err
	}
	if strings.Contains(string(recorded)+mitm.said(), mitmSecret) {
		return errors.New("the secret of a URL was printed or recorded")
	}
	return errors.Join(checkFlows(flows, flow{Method: "POST", URL: "https://localhost:" + port + "/v1beta/models", Status: 200,
		RequestBytes: len(body), ResponseBytes: len(answer), HTTP: version}, "127.0.0.1:"+port), checkRecording(recorded))
}

// An observation is curl behind a proxy.
type observation struct{ proxy, version string }

// curl posts a body and returns the answer.
func (o *observation) curl(ctx context.Context, ca, url, body string) (string, error) {
	option := "--http1.1"
	if o.version == http2 {
		option = "--http2"
	}
	cmd := exec.CommandContext(ctx, "curl", "--silent", "--show-error", "--fail", option, "--noproxy", "", "--proxy", o.proxy, "--cacert", ca,
		"--header", "Content-Type: application/json", "--data-binary", body, "--write-out", "\n%{http_version}", url)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, firstLines(string(exit.Stderr), 3))
		}
		return "", fmt.Errorf("curl %s %s: %w", option, url, err)
	}
	at := bytes.LastIndexByte(out, '\n')
	if got := string(out[at+1:]); got != shortVersion[o.version] {
		return "", fmt.Errorf("curl %s used HTTP version %s", option, got)
	}
	return string(out[:at]), nil
}

// A flow is a line of perigee mitm --json.
type flow struct {
	Method, URL   string
	Status        int
	RequestBytes  int `json:"request_bytes"`
	ResponseBytes int `json:"response_bytes"`
	HTTP, Error   string
}

// await returns the flows as soon as there are two.
func (o *observation) await(ctx context.Context, mitm *process) ([]flow, error) {
	for {
		var flows []flow
		lines := bufio.NewScanner(strings.NewReader(mitm.said()))
		for lines.Scan() {
			var f flow
			if strings.HasPrefix(lines.Text(), "{") && json.Unmarshal(lines.Bytes(), &f) == nil {
				flows = append(flows, f)
			}
		}
		if len(flows) >= 2 {
			return flows, nil
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return nil, fmt.Errorf("perigee mitm does not tell about two flows: %s", lastBytes(mitm.said(), 1500))
		}
	}
}

// checkFlows compares the flow of the intercepted host, whose URL begins as wanted, and that of the
// address that was tunnelled.
func checkFlows(flows []flow, wanted flow, tunnelled string) error {
	seen := 0
	for _, f := range flows {
		if f.Method == "CONNECT" && f.URL == tunnelled {
			seen++
			continue
		}
		same := f
		same.URL = wanted.URL
		if !strings.HasPrefix(f.URL, wanted.URL) || same != wanted {
			return fmt.Errorf("a flow is %+v, want %+v", f, wanted)
		}
		seen++
	}
	if seen != 2 || len(flows) != 2 {
		return fmt.Errorf("the flows are %+v", flows)
	}
	return nil
}

// checkRecording looks for the prompt and the answer in a HAR file.
func checkRecording(text []byte) error {
	var har struct {
		Log struct {
			Version string
			Entries []struct {
				Request struct {
					PostData struct{ Text string }
				}
				Response struct {
					Status  int
					Content struct{ Text string }
				}
			}
		}
	}
	if err := json.Unmarshal(text, &har); err != nil {
		return err
	}
	for _, e := range har.Log.Entries {
		if har.Log.Version == "1.2" && e.Response.Status == 200 && strings.Contains(e.Request.PostData.Text, "hello from curl") && strings.Contains(e.Response.Content.Text, "hello") {
			return nil
		}
	}
	return fmt.Errorf("the recording has no entry for the call: %s", lastBytes(string(text), 2000))
}
