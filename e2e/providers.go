package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// written is the scenario in which the SDK of a provider reads the requests that perigee wrote in
// the other scenarios of a client.
const written = "requests read by the SDK"

// A provider is a way to answer with other APIs than Google's: an upstream in front of the
// simulator, and one of its models, which every name of a client stands for.
type provider struct {
	name     string
	dialect  string // of its API; requests in it are forwarded
	upstream string // settings of the upstream; %s is the address of the simulator
	profile  string // of the simulator
	model    string
	more     []string // further scenarios than the tool loop
	own      []string // members that the server has and the SDK's types have not
}

var providers = []*provider{
	{name: "openai chat", dialect: "chat", upstream: `kind: openai, url: "%s/v1", api: chat, profile: openai`, model: "gpt-4.1", more: []string{question, parallel}},
	{name: "openai responses", dialect: "responses", upstream: `kind: openai, url: "%s/v1", api: responses, profile: openai`, model: "gpt-5.4", more: []string{parallel}},
	{name: "anthropic", dialect: "messages", upstream: `kind: anthropic, url: "%s"`, model: "claude-sonnet-4-6", more: []string{question, parallel}},
	{name: "openrouter", dialect: "chat", upstream: `kind: openai, url: "%s/v1", profile: openrouter`, profile: "openrouter", model: "anthropic/claude-sonnet-5",
		own: []string{".reasoning", ".messages[].reasoning_details", ".session_id", ".top_k", ".messages[].content[].cache_control", ".tools[].cache_control"}},
	{name: "deepseek", dialect: "chat", upstream: `kind: openai, url: "%s/v1", profile: deepseek`, profile: "deepseek", model: "deepseek-v4-pro",
		own: []string{".thinking", ".messages[].reasoning_content"}},
}

// A served is the daemon in front of a provider, and what reads the requests in between.
type served struct {
	once   sync.Once
	daemon string
	reader string
	end    func()
	failed error
}

// providerClients are agents and SDKs that are answered by each of the providers.
func providerClients() (clients []client) {
	for _, p := range providers {
		for _, a := range []struct {
			dialect string
			agent   agent
		}{
			{"messages", claudeCode("claude code", p.model, "")},
			{"responses", codex("codex", false)},
			{"gemini", geminiCLI()}, {"gemini", qwen()}, {"gemini", pi()},
			{"chat", copilotOver("chat", p.model)}, {"responses", copilotOver("responses", p.model)}, {"messages", copilotOver("messages", p.model)},
			{"chat", openCode("openai-compatible", "/v1", p.model)}, {"responses", openCode("openai", "/v1", p.model)},
			{"messages", openCode("anthropic", "/v1", p.model)}, {"gemini", openCode("google", "/v1beta", p.model)},
		} {
			if a.agent.name != "gemini cli" { // it takes names of Gemini only
				a.agent.model = p.model
			}
			a.agent.name, a.agent.from = strings.TrimSuffix(a.agent.name, " "+p.model), p
			clients = append(clients, a.agent.client().from(p, a.dialect))
		}
		for dialect, c := range map[string][]client{
			"chat":      {javascript("openai js chat", "openai", nil, "openai.mjs", "chat"), golang("openai go chat", "github.com/openai/openai-go/v3", nil, "chat")},
			"responses": {javascript("openai js responses", "openai", nil, "openai.mjs", "responses"), golang("openai go responses", "github.com/openai/openai-go/v3", nil, "responses")},
			"messages":  {javascript("anthropic js", "@anthropic-ai/sdk", nil, "anthropic.mjs", "@anthropic-ai/sdk"), golang("anthropic go", "github.com/anthropics/anthropic-sdk-go", nil, "anthropic")},
			"gemini":    {javascript("genai js", "@google/genai", nil, "genai.mjs"), golang("genai go", "google.golang.org/genai", nil, "genai")},
		} {
			for _, c := range c {
				clients = append(clients, c.from(p, dialect))
			}
		}
	}
	// Forwarded, the peculiarities of a server reach the client, which has to know them: the reasoning
	// that DeepSeek wants back, and OpenRouter's last chunks.
	clients = slices.DeleteFunc(clients, func(c client) bool { return c.provider.profile != "" && !slices.Contains(c.scenarios, written) })
	slices.SortStableFunc(clients, func(a, b client) int { return strings.Compare(a.name, b.name) })
	return clients
}

// from is a client that speaks a dialect and is answered by a provider. The SDK of the provider must
// understand each request that perigee translates.
func (c client) from(p *provider, dialect string) client {
	c.name += " from " + p.name
	c.provider = p
	c.scenarios = append([]string{toolLoop}, p.more...)
	run := c.run
	c.run = func(ctx context.Context, s *stage, c client, r *report) {
		daemon, err := s.serveFrom(ctx, p)
		if err == nil {
			_, err = daemon.read(ctx) // what earlier clients have left
		}
		if err != nil && err != errNothingRead {
			r.addAll(c, err)
			return
		}
		asked := c
		asked.scenarios = slices.DeleteFunc(slices.Clone(c.scenarios), func(s string) bool { return s == written })
		run(ctx, s, asked, r)
		if len(asked.scenarios) < len(c.scenarios) {
			lost, err := daemon.read(ctx)
			lost = slices.DeleteFunc(lost, func(what string) bool {
				member, _, _ := strings.Cut(what, " is lost")
				return slices.Contains(p.own, member)
			})
			if err == nil && len(lost) > 0 {
				err = errors.New(strings.Join(lost, "\n"))
			}
			r.add(c, written, err)
		}
	}
	if dialect != p.dialect {
		c.scenarios = append(c.scenarios, written)
	}
	return c
}

// serveFrom runs a daemon in front of a provider, once.
func (s *stage) serveFrom(ctx context.Context, p *provider) (*served, error) {
	s.mu.Lock()
	if s.served == nil {
		s.served = map[*provider]*served{}
	}
	d := s.served[p]
	if d == nil {
		d = new(served)
		s.served[p] = d
	}
	s.mu.Unlock()
	d.once.Do(func() { d.failed = d.open(ctx, s, p) })
	return d, d.failed
}

func (d *served) open(ctx context.Context, s *stage, p *provider) error {
	name := strings.ReplaceAll(p.name, " ", "-")
	args := []string{"simulate", "--listen", "127.0.0.1:0"}
	if p.profile != "" {
		args = append(args, "--profile", p.profile)
	}
	simulator, err := s.start(ctx, "simulated-"+name, s.binary, args...)
	if err != nil {
		return err
	}
	if err := d.readBefore(simulator); err != nil {
		return err
	}
	config := filepath.Join(s.dir, name+".yaml")
	text := quickSigns + "upstreams:\n  - {name: provider, " + fmt.Sprintf(p.upstream, d.reader) + ", keys: [provider-key]}\n" +
		fmt.Sprintf("models: {default: %q, aliases: {\"*\": %q}}\nkeys:\n  - {name: client, secret: %s}\n", p.model, p.model, s.key)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	d.daemon, err = s.start(ctx, name, s.binary, "serve", "--config", config, "--listen", "127.0.0.1:0")
	return err
}

// readBefore starts the program that reads requests with the types of the SDKs, in front of a
// simulator.
func (d *served) readBefore(simulator string) error {
	cmd := exec.Command(cached(goInstall, "gosdk"), "read", simulator)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	d.end = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if d.reader = listenAddress.FindString(line); d.reader == "" {
		return fmt.Errorf("gosdk read says %q, %w", line, err)
	}
	return nil
}

// read returns what the types of the SDK lost of the requests since the last time, and
// errNothingRead if there was none.
func (d *served) read(ctx context.Context) (lost []string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.reader+"/read", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var said struct {
		Requests int
		Lost     []string
	}
	body, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(body, &said)
	}
	if err == nil && said.Requests == 0 {
		err = errNothingRead
	}
	return said.Lost, err
}

var errNothingRead = errors.New("no request reached the provider")
