package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// interceptions are language servers between perigee and a cloud with TLS, in each of the ways to
// intercept their calls.
func interceptions() []client {
	clients := []client{
		{name: "interception endpoint", run: eachVersion(interceptEndpoint)},
		{name: "interception proxy", run: eachVersion(interceptProxy)},
	}
	for i := range clients {
		clients[i].version, clients[i].install = "stand-in", headlessInstall
		clients[i].scenarios = []string{http1, http2}
		clients[i].together = true
	}
	return clients
}

// interceptEndpoint gives the language server a URL of perigee's as its cloud.
func interceptEndpoint(ctx context.Context, s *stage, version string) error {
	r, err := newIntercepted(ctx, s, "endpoint", version)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.talk.all(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.dir, r.headless.name, "data", "ca")); err == nil {
		return errors.New("there is a certificate authority, which intercept: endpoint does not need")
	}
	return r.cloud.check(ctx, r.host)
}

// interceptProxy has the language server use perigee as its proxy.
func interceptProxy(ctx context.Context, s *stage, version string) error {
	r, err := newIntercepted(ctx, s, "proxy", version)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.talk.all(ctx); err != nil {
		return err
	}
	if err := r.cloud.check(ctx, r.host); err != nil {
		return err
	}
	return r.seesOnlyTheCloud(ctx)
}

// An intercepted is a daemon with a language server, and the cloud of that.
type intercepted struct {
	headless *headless
	cloud    *tlsCloud
	host     string // of the cloud
	talk     *talk
}

func newIntercepted(ctx context.Context, s *stage, mode, version string) (_ *intercepted, err error) {
	name := "intercept-" + mode + "-" + shortVersion[version]
	r := &intercepted{}
	if r.cloud, err = newTLSCloud(ctx, s, name, version); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := r.cloud.serve(listener)
	r.host = listener.Addr().String()
	upstream := fmt.Sprintf("    intercept: %s\n    cloud_url: %q\n    env: {PERIGEE_STANDIN: \"http=%s\"}\n", mode, address, shortVersion[version])
	config := headlessConfig(s.key, r.cloud.simulator, interceptionConfig(r.cloud.certificate), upstream)
	if r.headless, err = newHeadless(ctx, s, name, config); err != nil {
		return nil, err
	}
	r.talk = &talk{client: http.DefaultClient, url: r.headless.url, key: s.key, cloud: r.cloud}
	return r, nil
}

func interceptionConfig(ca string) string {
	return fmt.Sprintf("limits: {drain: 2s}\ninterception: {listen: \"127.0.0.1:0\", upstream_ca: %q}", ca)
}

func (r *intercepted) close() {
	if r.headless != nil && r.headless.daemon != nil {
		r.headless.daemon.stop()
	}
	r.cloud.close()
}

var interceptingAddress = regexp.MustCompile(`intercepting\b.*?(127\.0\.0\.1:\d+)`)

// seesOnlyTheCloud connects to two hosts through the proxy of the language server: the cloud, for
// which perigee has a certificate, and one that it must not look into.
func (r *intercepted) seesOnlyTheCloud(ctx context.Context) error {
	found := interceptingAddress.FindStringSubmatch(r.headless.daemon.said())
	if found == nil {
		return fmt.Errorf("perigee does not say where it intercepts: %s", firstLines(r.headless.daemon.said(), 20))
	}
	authority := filepath.Join(r.headless.stage.dir, r.headless.name, "data", "ca", "ca.pem")
	for host, ca := range map[string]string{cloudHost + ":443": authority, r.host: r.cloud.certificate} {
		if err := throughProxy(ctx, "http://"+found[1], host, ca); err != nil {
			return fmt.Errorf("%s with the certificate authority of %s: %w", host, filepath.Base(ca), err)
		}
	}
	return nil
}

// throughProxy makes a request that anyone answers, and trusts only one certificate authority.
func throughProxy(ctx context.Context, proxy, host, ca string) error {
	encoded, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(encoded)
	via, err := url.Parse(proxy)
	if err != nil {
		return err
	}
	transport := &http.Transport{Proxy: http.ProxyURL(via), TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/", nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// A talk is what a client says to a model behind a language server, in the dialect of Chat.
type talk struct {
	client   *http.Client
	url, key string
	cloud    *tlsCloud
	made     int // calls
}

const talkModel = "gemini-3-flash"

// all has each kind of call, and compares their number with what the cloud was asked.
func (t *talk) all(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{{"a question", t.asks}, {"a stream", t.streams}, {"a loop with two calls", t.loops}, {"a call that is canceled", t.cancels}, {"another question", t.asks}} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	calls, err := t.cloud.calls()
	if err == nil && len(calls) != t.made {
		err = fmt.Errorf("%d calls were made, and the cloud was asked %d times", t.made, len(calls))
	}
	return err
}

type object = map[string]any

// A reply is an answer, or a chunk of one.
type reply struct {
	Choices []struct {
		Message, Delta replyMessage
		Reason         string `json:"finish_reason"`
	}
}

type replyMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Calls   []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (t *talk) post(ctx context.Context, body object) (*http.Response, error) {
	t.made++
	body["model"] = talkModel
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+"/v1/chat/completions", bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+t.key)
	response, err := t.client.Do(request)
	if err != nil {
		return nil, err
	}
	if upstream, notes := response.Header.Get("x-perigee-upstream"), response.Header.Get("x-perigee-notes"); response.StatusCode != http.StatusOK || upstream != "desk" || notes != "" {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		response.Body.Close()
		return nil, fmt.Errorf("status %d of upstream %q with notes %q: %s", response.StatusCode, upstream, notes, firstLines(string(said), 5))
	}
	return response, nil
}

// answer makes a call and returns its one message, also in the form in which it goes back.
func (t *talk) answer(ctx context.Context, body object) (m replyMessage, raw json.RawMessage, err error) {
	response, err := t.post(ctx, body)
	if err != nil {
		return m, nil, err
	}
	defer response.Body.Close()
	var whole struct {
		Choices []struct{ Message json.RawMessage }
	}
	if err := json.NewDecoder(response.Body).Decode(&whole); err != nil {
		return m, nil, err
	}
	if len(whole.Choices) != 1 {
		return m, nil, fmt.Errorf("the answer has %d choices", len(whole.Choices))
	}
	raw = whole.Choices[0].Message
	return m, raw, json.Unmarshal(raw, &m)
}

func says(role, text string) object { return object{"role": role, "content": text} }

func (t *talk) asks(ctx context.Context) error {
	wanted := newToken()
	m, _, err := t.answer(ctx, object{"messages": []any{says("user", "[[text: it is "+wanted+"]]")}})
	if err == nil && !strings.Contains(m.Content, wanted) {
		err = fmt.Errorf("the answer is %q, without %s", m.Content, wanted)
	}
	return err
}

// open begins a stream whose answer is held, and returns after its first text.
func (t *talk) open(ctx context.Context) (token string, lines *bufio.Scanner, response *http.Response, err error) {
	token = newToken()
	response, err = t.post(ctx, object{"stream": true, "messages": []any{says("user", "[[text: one two three "+token+"]] [[chunks: 4]] hold "+token)}})
	if err != nil {
		return "", nil, nil, err
	}
	lines = bufio.NewScanner(response.Body)
	text := ""
	for text == "" && lines.Scan() {
		text = deltaOf(lines.Text())
	}
	if text == "" || strings.Contains(text, token) {
		response.Body.Close()
		return "", nil, nil, fmt.Errorf("the stream begins with %q, %v", text, lines.Err())
	}
	return token, lines, response, nil
}

// deltaOf returns the text in a line of a stream.
func deltaOf(line string) string {
	var chunk reply
	data, ok := strings.CutPrefix(line, "data: ")
	if !ok || json.Unmarshal([]byte(data), &chunk) != nil || len(chunk.Choices) == 0 {
		return ""
	}
	return chunk.Choices[0].Delta.Content
}

// streams reads the first text before the cloud sends the rest.
func (t *talk) streams(ctx context.Context) error {
	token, lines, response, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	close(t.cloud.gate(token))
	rest, done := "", false
	for lines.Scan() {
		rest += deltaOf(lines.Text())
		done = done || lines.Text() == "data: [DONE]"
	}
	if err := lines.Err(); err != nil || !done || !strings.Contains(rest, token) {
		return fmt.Errorf("the stream goes on with %q, done is %v, %w", rest, done, err)
	}
	return nil
}

// cancelLimit is how long the cloud may wait for the end of a call that is canceled. The promise is
// two seconds.
const cancelLimit = 20 * time.Second

// cancels goes away in the middle of an answer. The cloud must see that.
func (t *talk) cancels(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	token, _, response, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	calls, err := t.cloud.calls()
	if err != nil {
		return err
	}
	last := calls[len(calls)-1]
	if !bytes.Contains(last.body, []byte(token)) {
		return errors.New("the last call that the cloud got is another one")
	}
	cancel()
	select {
	case <-last.over:
		return nil
	case <-time.After(cancelLimit):
		return fmt.Errorf("the cloud still answers %s after its client has gone", cancelLimit)
	}
}

var vaultTool = object{"type": "function", "function": object{
	"name": "open_vault", "description": "Opens a vault and says what is in it.",
	"parameters": object{"type": "object", "properties": object{"vault": object{"type": "string"}}, "required": []string{"vault"}},
}}

// loops has the model call a tool twice, one call after the other, with a parameter and a system
// text. The cloud must get those of the client and none of the language server's.
func (t *talk) loops(ctx context.Context) error {
	rules, opened := newToken(), ""
	messages := []any{says("system", "The rule is "+rules+"."), says("user",
		`[[call: open_vault {"vault":"north"}]] [[then]] [[call: open_vault {"vault":"south"}]]`)}
	for _, vault := range []string{"north", "south"} {
		m, raw, err := t.answer(ctx, object{"messages": messages, "tools": []any{vaultTool}, "temperature": 0.25})
		if err != nil {
			return err
		}
		if len(m.Calls) != 1 || m.Calls[0].Function.Name != "open_vault" || !strings.Contains(m.Calls[0].Function.Arguments, vault) {
			return fmt.Errorf("instead of a call for %s, the answer is %s", vault, raw)
		}
		opened = newToken()
		messages = append(messages, raw, object{"role": "tool", "tool_call_id": m.Calls[0].ID, "content": "in " + vault + " is " + opened})
	}
	m, _, err := t.answer(ctx, object{"messages": messages, "tools": []any{vaultTool}, "temperature": 0.25})
	if err == nil && !strings.Contains(m.Content, opened) {
		err = fmt.Errorf("the answer is %q, without %s, which the tool has returned", m.Content, opened)
	}
	if err != nil {
		return err
	}
	return t.carriedLoop(rules)
}

// carriedLoop checks the last three calls that the cloud got.
func (t *talk) carriedLoop(rules string) error {
	calls, err := t.cloud.calls()
	if err != nil {
		return err
	}
	if len(calls) < 3 {
		return fmt.Errorf("the cloud got %d calls", len(calls))
	}
	for _, call := range calls[len(calls)-3:] {
		var functions []string
		for _, tool := range call.Request.Tools {
			for _, function := range tool.Functions {
				functions = append(functions, function.Name)
			}
		}
		system := string(call.Request.System)
		if strings.Join(functions, " ") != "open_vault" || call.Request.Config.Temperature != 0.25 ||
			!strings.Contains(system, rules) || strings.Contains(system, "communication_style") {
			return fmt.Errorf("the cloud got the functions %q, the temperature %v and the system text %s", functions, call.Request.Config.Temperature, system)
		}
		if !strings.HasPrefix(call.RequestID, "agent/") || call.Project == "" {
			return fmt.Errorf("the envelope is not that of the language server: requestId %q, project %q", call.RequestID, call.Project)
		}
	}
	return nil
}
