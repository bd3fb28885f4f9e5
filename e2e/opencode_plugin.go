package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// The scenarios of perigee's plugin in OpenCode.
const (
	pluginInstall  = "opencode plugin"
	pluginTests    = "types and unit tests"
	pluginModels   = "live models"
	pluginAlone    = "perigee not running"
	pluginRecovers = "interrupted tool call"
)

// openCodePlugins is OpenCode with perigee's plugin from this tree, instead of a provider in its
// settings.
func openCodePlugins() []client {
	return []client{{
		name: "opencode plugin", version: pinnedPackage("opencode", "opencode-linux-x64"), install: pluginInstall,
		scenarios: []string{pluginTests, pluginModels, question, pluginAlone, pluginRecovers}, beside: true,
		run: func(ctx context.Context, s *stage, c client, r *report) {
			plugin := filepath.Join(s.dir, "perigee-opencode.js")
			err := inPlugin(ctx, "node", "build.mjs", plugin)
			for _, scenario := range c.scenarios {
				if err != nil {
					r.add(c, scenario, fmt.Errorf("build the plugin: %w", err))
					continue
				}
				r.add(c, scenario, tryPlugin(ctx, s, plugin, scenario))
			}
		},
	}}
}

// installPlugin installs OpenCode, and what the plugin needs to be built and tested.
func installPlugin(ctx context.Context) (fresh bool, err error) {
	fresh, err = installOpenCode(ctx)
	if err != nil {
		return fresh, err
	}
	lock, err := os.ReadFile(filepath.Join("opencode", "package-lock.json"))
	if err != nil {
		return false, err
	}
	mark := filepath.Join("opencode", "node_modules", "installed-lock.json")
	if have, err := os.ReadFile(mark); err == nil && bytes.Equal(have, lock) {
		return fresh, nil
	}
	if err := npmCI(ctx, "opencode"); err != nil {
		return false, err
	}
	return true, os.WriteFile(mark, lock, 0o644)
}

// inPlugin runs a command in the plugin's directory.
func inPlugin(ctx context.Context, argv ...string) error {
	ctx, cancel := context.WithTimeout(ctx, errandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = "opencode"
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, lastBytes(string(said), 2000))
	}
	return nil
}

func tryPlugin(ctx context.Context, s *stage, plugin, scenario string) error {
	home, err := os.MkdirTemp(s.dir, "home-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	e := errand{home: home, work: filepath.Join(home, "work"), base: s.simulated, key: s.key, model: "claude-sonnet-4-6"}
	if err := os.Mkdir(e.work, 0o700); err != nil {
		return err
	}
	a := openCodeWithPlugin(plugin)
	switch scenario {
	case pluginTests:
		return inPlugin(ctx, "npm", "test")
	case pluginModels:
		return listsLiveModels(ctx, a, e)
	case question:
		return a.asks(ctx, e)
	case pluginAlone:
		return goesOnAlone(ctx, a, e)
	case pluginRecovers:
		return recovers(ctx, s, a, e)
	}
	return fmt.Errorf("there is no scenario %q for the plugin", scenario)
}

// openCodeWithPlugin is OpenCode with the plugin where its documentation puts it, and no provider
// in its settings.
func openCodeWithPlugin(plugin string) agent {
	a := openCode("plugin", "", "claude-sonnet-4-6")
	command := a.command
	a.prepare = func(e errand) error {
		settings, err := json.Marshal(object{
			"model": "perigee/" + e.model, "small_model": "perigee/" + e.model,
			"enabled_providers": []string{"perigee"}, "permission": "allow", "lsp": false, "formatter": false,
		})
		if err != nil {
			return err
		}
		code, err := os.ReadFile(plugin)
		if err != nil {
			return err
		}
		return errors.Join(writeSettings(filepath.Join(e.work, "opencode.json"), string(settings)),
			writeSettings(filepath.Join(e.home, ".config", "opencode", "plugin", "perigee.js"), string(code)), pretendDependencies(e))
	}
	a.command = func(e errand) invocation {
		how := command(e)
		how.env = append(slices.DeleteFunc(how.env, func(v string) bool { return v == "OPENCODE_PURE=1" }),
			"PERIGEE_URL="+e.base, "PERIGEE_KEY="+e.key, "OPENCODE_PERIGEE_DEBUG=2")
		return how
	}
	return a
}

// pretendDependencies makes OpenCode believe that it has installed its package for plugins, which
// ours does not import. Without network it tries for more than a minute at each start.
func pretendDependencies(e errand) error {
	directory := filepath.Join(e.home, ".config", "opencode")
	if err := os.MkdirAll(filepath.Join(directory, "node_modules"), 0o700); err != nil {
		return err
	}
	return writeSettings(filepath.Join(directory, "package-lock.json"), `{"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}`)
}

// listsLiveModels compares what OpenCode lists with what perigee lists.
func listsLiveModels(ctx context.Context, a agent, e errand) error {
	var list struct {
		Models []struct {
			Name                              string
			InputTokenLimit, OutputTokenLimit int64
			Thinking                          bool
			SupportedGenerationMethods        []string
		}
	}
	if err := callJSON(ctx, http.MethodGet, e.base+"/v1beta/models?pageSize=1000", nil, &list); err != nil {
		return err
	}
	if err := a.prepare(e); err != nil {
		return err
	}
	a.answer = wholeOutput
	said, err := a.with("models", "--verbose").do(ctx, e)
	if err != nil {
		return err
	}
	listed := map[string]openCodeModel{}
	for rows := json.NewDecoder(strings.NewReader(withoutNames(said))); ; {
		var m openCodeModel
		if err := rows.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("read the list of OpenCode: %w: %s", err, lastBytes(said, 1500))
		}
		listed[m.ID] = m
	}
	chat := 0
	for _, want := range list.Models {
		id := strings.TrimPrefix(want.Name, "models/")
		got, found := listed[id]
		if !slices.Contains(want.SupportedGenerationMethods, "generateContent") {
			if found {
				return fmt.Errorf("OpenCode lists %s, which cannot answer a chat", id)
			}
			continue
		}
		chat++
		if !found || got.Limit.Context != want.InputTokenLimit || got.Limit.Output != want.OutputTokenLimit {
			return fmt.Errorf("OpenCode has %+v for %+v", got, want)
		}
		for _, level := range []string{"low", "medium", "high"} {
			if _, has := got.Variants[level]; has != want.Thinking {
				return fmt.Errorf("OpenCode has the thinking levels %v for %s, whose thinking is %v", got.Variants, id, want.Thinking)
			}
		}
	}
	if chat == 0 || chat != len(listed) {
		return fmt.Errorf("OpenCode lists %d models, perigee %d", len(listed), chat)
	}
	return nil
}

// An openCodeModel is a row of "opencode models --verbose".
type openCodeModel struct {
	ID       string
	Limit    struct{ Context, Output int64 }
	Variants map[string]json.RawMessage
}

// withoutNames removes the lines with names, which are between the objects of the list.
func withoutNames(list string) string {
	lines := strings.Split(list, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "perigee/") }), "\n")
}

// with is the agent with another subcommand, and without a prompt.
func (a agent) with(args ...string) agent {
	command := a.command
	a.command = func(e errand) invocation {
		how := command(e)
		return invocation{argv: append(how.argv[:1:1], args...), env: how.env}
	}
	return a
}

// goesOnAlone starts OpenCode where no perigee is: it must work, and its log must have the command
// to run.
func goesOnAlone(ctx context.Context, a agent, e errand) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	e.base = "http://" + listener.Addr().String()
	listener.Close()
	a.answer = wholeOutput
	if _, err := a.with("debug", "config").do(ctx, e); err != nil {
		return err
	}
	said, err := pluginLog(e)
	if want := "perigee does not answer at " + e.base; err == nil && !(strings.Contains(said, want) && strings.Contains(said, "perigee serve")) {
		err = fmt.Errorf("the log lacks %q and the command to run: %s", want, said)
	}
	return err
}

// pluginLog is what the plugin has written to its log files.
func pluginLog(e errand) (string, error) {
	files, err := filepath.Glob(filepath.Join(e.home, ".config", "opencode", "perigee-logs", "*.log"))
	if err != nil || len(files) == 0 {
		return "", errors.Join(err, errors.New("the plugin has written no log file"))
	}
	var said strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		said.Write(text)
	}
	return said.String(), nil
}

// recovers interrupts a tool call by killing OpenCode. The provider refuses the session from then
// on; with the plugin, the session is repaired and goes on.
func recovers(ctx context.Context, s *stage, a agent, e errand) error {
	ctx, cancel := context.WithTimeout(ctx, errandLimit)
	defer cancel()
	forgetful, err := newForgetfulProvider(s.simulator)
	if err != nil {
		return err
	}
	defer forgetful.close()
	if e.base, err = s.serveGateway(ctx, "forgetful", forgetful.url, "    session_recovery: false\n"); err != nil {
		return err
	}
	plain := openCode("anthropic", "/v1", e.model)

	// OpenCode without the plugin dies while its tool runs.
	server, err := startOpenCode(ctx, plain, e)
	if err != nil {
		return err
	}
	defer server.end()
	session, err := server.newSession(ctx)
	if err != nil {
		return err
	}
	if err := server.prompt(ctx, session, plain.shell("sleep 600")); err != nil {
		return err
	}
	if err := server.await(ctx, session, func(h history) bool { return h.has("running", "") }); err != nil {
		return fmt.Errorf("wait for the tool call: %w", err)
	}
	server.end()

	// Without the plugin, the session cannot go on.
	if server, err = startOpenCode(ctx, plain, e); err != nil {
		return err
	}
	defer server.end()
	const refused = "without `tool_result` blocks"
	if err := server.prompt(ctx, session, "[[text: too early]]"); err != nil {
		return err
	}
	if err := server.await(ctx, session, func(h history) bool { return strings.Contains(h.lastError(), refused) }); err != nil {
		return fmt.Errorf("without the plugin, wait for the refusal: %w", err)
	}
	server.end()

	// With the plugin, the next prompt is refused too, but then the session is repaired, and the
	// resume text is answered.
	recovered := newToken()
	settings, err := json.Marshal(object{"resume_text": "[[text: recovered " + recovered + "]]"})
	if err != nil {
		return err
	}
	if err := writeSettings(filepath.Join(e.home, ".config", "opencode", "perigee.json"), string(settings)); err != nil {
		return err
	}
	if server, err = startOpenCode(ctx, a, e); err != nil {
		return err
	}
	defer server.end()
	if err := server.prompt(ctx, session, "[[text: too early]]"); err != nil {
		return err
	}
	err = server.await(ctx, session, func(h history) bool { return h.says("recovered " + recovered) })
	said, _ := pluginLog(e)
	if err != nil {
		return fmt.Errorf("with the plugin, wait for the answer to the resume text: %w; log of the plugin: %s", err, said)
	}
	const cancelled = "Operation cancelled by user (ESC pressed)"
	h, err := server.history(ctx, session)
	switch {
	case err != nil:
		return err
	case !h.has("error", cancelled):
		return errors.New("the call has no cancelled result in OpenCode")
	case !forgetful.met(cancelled, `"thinkingBudget":1024`):
		return fmt.Errorf("the provider was not sent the cancelled result with a low thinking level: %s", lastBytes(string(forgetful.bodies[len(forgetful.bodies)-1]), 3000))
	case !strings.Contains(said, `"kind":"tool_result_missing","repairs":1,"resume":true`):
		return fmt.Errorf("the log of the plugin does not tell of the recovery: %s", said)
	}
	return nil
}

// A forgetfulProvider stands between perigee and the simulator. It drops what OpenCode sends as
// result of a call that was interrupted, as versions of OpenCode did which sent none; the simulator
// then refuses the conversation with the provider's own words.
type forgetfulProvider struct {
	url    string
	server *http.Server

	mu     sync.Mutex
	bodies [][]byte
}

func newForgetfulProvider(simulator string) (*forgetfulProvider, error) {
	target, err := url.Parse(simulator)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen as forgetful provider: %w", err)
	}
	p := &forgetfulProvider{url: "http://" + listener.Addr().String()}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1}
	p.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if bytes.Contains(body, []byte("functionResponse")) {
			body = p.forget(body)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

func (p *forgetfulProvider) close() { _ = p.server.Close() }

// forget removes the placeholder results from a request of the private gateway.
func (p *forgetfulProvider) forget(body []byte) []byte {
	p.mu.Lock()
	p.bodies = append(p.bodies, body)
	p.mu.Unlock()
	var envelope map[string]any
	if json.Unmarshal(body, &envelope) != nil {
		return body
	}
	request, _ := envelope["request"].(map[string]any)
	contents, _ := request["contents"].([]any)
	var kept []any
	for _, c := range contents {
		content, _ := c.(map[string]any)
		parts, _ := content["parts"].([]any)
		content["parts"] = slices.DeleteFunc(parts, func(part any) bool {
			text, _ := json.Marshal(part)
			return bytes.Contains(text, []byte("functionResponse")) && bytes.Contains(text, []byte("[Tool execution was interrupted]"))
		})
		if len(content["parts"].([]any)) > 0 {
			kept = append(kept, content)
		}
	}
	request["contents"] = kept
	changed, err := json.Marshal(envelope)
	if err != nil {
		return body
	}
	return changed
}

// met reports whether a request with tool results and all of the texts was sent.
func (p *forgetfulProvider) met(texts ...string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.bodies, func(body []byte) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !bytes.Contains(body, []byte(text)) })
	})
}
