package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// An installation is a configuration and a data directory that several versions of perigee use one
// after the other, and what has to be found there.
type installation struct {
	stage  *stage
	config string
	data   string
	daemon *process
	key    string // of the client; installationKey if empty
	rounds int
	kept   kept
}

// kept is everything that an installation must not lose. It is also in the fixtures; the test that
// reads them is internal/daemon/prooftests/upgrade_test.go.
type kept struct {
	At        time.Time         `json:"at"`        // when it was recorded
	Calls     map[string]row    `json:"calls"`     // by ID, as GET /v1/traces had them first
	Accounts  map[string]string `json:"accounts"`  // refresh tokens by email
	Disabled  string            `json:"disabled"`  // the account that is not used
	Responses []string          `json:"responses"` // each continues the one before
	Images    []string          `json:"images"`    // paths
	ToolCall  string            `json:"tool_call"` // the ID of one whose result is still missing
	Prompt    string            `json:"prompt"`    // a text in the request of Traced
	Traced    string            `json:"traced"`
}

// A row is a call in the list of GET /v1/traces, without what a version may add.
type row map[string]any

// rowMembers are the members that every version writes and reads.
var rowMembers = []string{"id", "time", "dialect", "model", "model_asked", "upstream", "account", "status", "class",
	"input_tokens", "output_tokens", "outcome", "client", "key", "bodies"}

const installationKey = "upgrade-client-key"

// installationConfig is the configuration of an installation, which the tests of the archives have, too.
func installationConfig(provider string) (string, error) {
	text, err := os.ReadFile(filepath.Join("internal", "daemon", "prooftests", "testdata", "upgrade", "config.yaml"))
	return fmt.Sprintf(string(text), provider), err
}

func newInstallation(s *stage, name string) (*installation, error) {
	in := &installation{stage: s, config: filepath.Join(s.dir, name+".yaml"), data: filepath.Join(s.dir, name, "data"),
		kept: kept{Calls: map[string]row{}, Accounts: map[string]string{"ada@example.com": "sim-refresh-ada", "bob@example.com": "sim-refresh-bob"}}}
	text, err := installationConfig(s.simulator)
	if err == nil {
		err = os.WriteFile(in.config, []byte(text), 0o600)
	}
	return in, err
}

// name is that of the stage's directory of the installation.
func (in *installation) name() string { return filepath.Base(filepath.Dir(in.data)) }

// serve starts a daemon.
func (in *installation) serve(ctx context.Context, binary string) (err error) {
	in.daemon, err = in.stage.launch(ctx, in.name(), binary, "serve", "--config", in.config, "--listen", "127.0.0.1:0")
	return err
}

// stop ends the daemon, with a command of a version or, if binary is empty, with a signal.
func (in *installation) stop(ctx context.Context, binary string) error {
	if binary != "" {
		if _, err := in.command(ctx, binary, "stop"); err != nil {
			return err
		}
	}
	in.daemon.end(syscall.SIGTERM)
	return nil
}

// command runs a command of a version, and returns what it writes to stdout.
func (in *installation) command(ctx context.Context, binary string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "--config", in.config)...)
	cmd.Env = in.stage.env(in.name())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", filepath.Base(binary), strings.Join(args, " "), err, firstLines(stderr.String()+string(stdout), 8))
	}
	return stdout, err
}

// do makes a request with the key, or as the owner, and returns the answer. A call for a model is
// remembered.
func (in *installation) do(ctx context.Context, method, path, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, in.daemon.address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Api-Key", cmp.Or(in.key, installationKey))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if owned := strings.HasPrefix(path, "/v1/traces") || strings.HasPrefix(path, "/v1/accounts"); owned {
		token, err := os.ReadFile(filepath.Join(in.data, "admin.token"))
		if err != nil {
			return nil, err
		}
		req.Header = http.Header{"Authorization": {"Bearer " + strings.TrimSpace(string(token))}}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, lastBytes(string(answer), 500))
	}
	if err == nil && method == http.MethodPost {
		in.kept.Calls[resp.Header.Get("X-Perigee-Call")] = nil
	}
	return answer, err
}

const (
	upgradeTools = `"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"at":{"type":"string"}}}}}]`
	upgradeAsk   = `{"role":"user","content":"[[think: where]] [[call: look {\"at\":\"here\"}]]"}`
)

// use makes calls in all dialects, each of which adds something that the next version has to find,
// and continues what the version before it has begun.
func (in *installation) use(ctx context.Context) error {
	in.rounds++
	k := &in.kept
	prompt := fmt.Sprintf("round %d of the upgrade", in.rounds)
	for path, body := range map[string]string{
		chatPath:         `{"model":"gemini-3-flash","stream":true,"messages":[{"role":"user","content":"` + prompt + `"}]}`,
		"/v1/messages":   `{"model":"claude-sonnet-4-6","max_tokens":100,"messages":[{"role":"user","content":"` + prompt + `"}]}`,
		"/v1/embeddings": `{"model":"gemini-embedding-001","input":"` + prompt + `"}`,
		"/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse": `{"contents":[{"role":"user","parts":[{"text":"` + prompt + `"}]}]}`,
	} {
		if _, err := in.do(ctx, http.MethodPost, path, body); err != nil {
			return err
		}
	}
	if err := in.converse(ctx, prompt); err != nil {
		return err
	}
	if err := in.draw(ctx); err != nil {
		return err
	}
	k.Prompt = prompt
	return in.look(ctx)
}

// converse continues the stored response and the tool loop of the round before, and begins the next
// loop.
func (in *installation) converse(ctx context.Context, prompt string) error {
	k := &in.kept
	previous := ""
	if n := len(k.Responses); n > 0 {
		previous = fmt.Sprintf(`"previous_response_id":%q,`, k.Responses[n-1])
	}
	answer, err := in.do(ctx, http.MethodPost, "/v1/responses", `{`+previous+`"model":"gemini-3-flash","input":"`+prompt+` is kept"}`)
	if err != nil {
		return err
	}
	var response struct{ ID string }
	if err := json.Unmarshal(answer, &response); err != nil {
		return err
	}
	k.Responses = append(k.Responses, response.ID)
	messages := upgradeAsk
	if k.ToolCall != "" {
		messages += fmt.Sprintf(`,{"role":"assistant","tool_calls":[{"id":%[1]q,"type":"function","function":{"name":"look","arguments":"{\"at\":\"here\"}"}}]},{"role":"tool","tool_call_id":%[1]q,"content":"found"}`, k.ToolCall)
		if _, err = in.do(ctx, http.MethodPost, chatPath, `{"model":"gemini-3-flash",`+upgradeTools+`,"messages":[`+messages+`]}`); err != nil {
			return fmt.Errorf("the result of a tool that the version before has called: %w", err)
		}
	}
	answer, err = in.do(ctx, http.MethodPost, chatPath, `{"model":"gemini-3-flash",`+upgradeTools+`,"messages":[`+upgradeAsk+`]}`)
	if err != nil {
		return err
	}
	k.ToolCall, err = calledTool(answer)
	return err
}

// draw has an image made that the client gets as a link.
func (in *installation) draw(ctx context.Context) error {
	answer, err := in.do(ctx, http.MethodPost, "/v1/images/generations", `{"model":"gemini-3.1-flash-image","prompt":"[[image]]","response_format":"url"}`)
	if err != nil {
		return err
	}
	var drawn struct{ Data []struct{ URL string } }
	if err := json.Unmarshal(answer, &drawn); err != nil || len(drawn.Data) == 0 {
		return fmt.Errorf("no image in %s (%v)", answer, err)
	}
	in.kept.Images = append(in.kept.Images, strings.TrimPrefix(drawn.Data[0].URL, in.daemon.address))
	return nil
}

// listed returns the calls that are recorded.
func (in *installation) listed(ctx context.Context) (rows []row, err error) {
	answer, err := in.do(ctx, http.MethodGet, "/v1/traces?limit=1000", "")
	if err == nil {
		err = json.Unmarshal(answer, &rows)
	}
	for i := range rows {
		maps.DeleteFunc(rows[i], func(name string, _ any) bool { return !slices.Contains(rowMembers, name) })
	}
	return rows, err
}

// look waits until the calls of this round are recorded, and remembers their rows.
func (in *installation) look(ctx context.Context) error {
	var rows []row
	var err error
	if waited := eventually(ctx, 15*time.Second, "all calls are recorded", func() bool {
		rows, err = in.listed(ctx)
		return err == nil && len(rows) == len(in.kept.Calls) &&
			!slices.ContainsFunc(rows, func(r row) bool { return r["outcome"] == "open" })
	}); waited != nil {
		return errors.Join(waited, err, fmt.Errorf("%d of %d calls", len(rows), len(in.kept.Calls)))
	}
	for _, r := range rows {
		id, _ := r["id"].(string)
		if known, made := in.kept.Calls[id]; made && known == nil {
			in.kept.Calls[id] = r
			if r["dialect"] == "anthropic" {
				in.kept.Traced = id
			}
		}
	}
	in.kept.At = time.Now().UTC()
	return nil
}

// check compares what the daemon has with everything that was kept.
func (in *installation) check(ctx context.Context, binary string) error {
	return errors.Join(in.checkCalls(ctx), in.checkUsage(ctx), in.checkAccounts(ctx, binary), in.checkObjects(ctx), in.checkTrace(ctx, binary))
}

func (in *installation) checkCalls(ctx context.Context) error {
	rows, err := in.listed(ctx)
	if err != nil {
		return err
	}
	if len(rows) == 0 || len(rows) != len(in.kept.Calls) {
		return fmt.Errorf("%d calls are recorded, want %d", len(rows), len(in.kept.Calls))
	}
	for _, r := range rows {
		id, _ := r["id"].(string)
		if want := in.kept.Calls[id]; !maps.Equal(want, r) {
			return fmt.Errorf("call %s is recorded as %v, want %v", id, r, want)
		}
	}
	return nil
}

// checkUsage compares the sums with the calls: in all, and by model.
func (in *installation) checkUsage(ctx context.Context) error {
	want := map[string][3]float64{}
	for _, r := range in.kept.Calls {
		model, _ := r["model"].(string)
		asked, _ := r["model_asked"].(string)
		input, _ := r["input_tokens"].(float64)
		made, _ := r["output_tokens"].(float64)
		for _, name := range []string{cmp.Or(model, asked), "client"} {
			s := want[name]
			want[name] = [3]float64{s[0] + 1, s[1] + input, s[2] + made}
		}
	}
	got := map[string][3]float64{}
	for _, by := range []string{"model", "key"} {
		answer, err := in.do(ctx, http.MethodGet, "/v1/usage?since=2026-01-01T00:00:00Z&by="+by, "")
		if err != nil {
			return err
		}
		var rows []struct {
			Group  string
			Calls  float64
			Input  float64 `json:"input_tokens"`
			Output float64 `json:"output_tokens"`
		}
		if err := json.Unmarshal(answer, &rows); err != nil {
			return err
		}
		for _, r := range rows {
			got[r.Group] = [3]float64{r.Calls, r.Input, r.Output}
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("usage (calls, input, output) is %v, want %v", got, want)
	}
	return nil
}

// checkAccounts has a version export the accounts, with the tokens that it can read.
func (in *installation) checkAccounts(ctx context.Context, binary string) error {
	file := filepath.Join(in.stage.dir, in.name()+"-export.json")
	if _, err := in.command(ctx, binary, "account", "export", file, "--yes"); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	exported, err := accountsIn(text)
	if err == nil && !maps.Equal(exported, in.kept.Accounts) {
		err = fmt.Errorf("%d accounts are exported with other tokens than %d were imported with", len(exported), len(in.kept.Accounts))
	}
	if err != nil {
		return err
	}
	answer, err := in.do(ctx, http.MethodGet, "/v1/accounts", "")
	if err != nil {
		return err
	}
	var list []struct {
		Email   string
		Enabled bool
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return err
	}
	for _, a := range list {
		if a.Enabled == (a.Email == in.kept.Disabled) {
			return fmt.Errorf("account %s: enabled is %v, and %q was disabled", a.Email, a.Enabled, in.kept.Disabled)
		}
	}
	return nil
}

// accountsIn reads an export.
func accountsIn(text []byte) (map[string]string, error) {
	var file struct {
		Accounts []struct {
			Email   string
			Refresh string `json:"refresh_token"`
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, json.Unmarshal(text, &file.Accounts)
	}
	found := map[string]string{}
	for _, a := range file.Accounts {
		found[a.Email] = a.Refresh
	}
	return found, nil
}

// checkObjects reads the stored responses and images.
func (in *installation) checkObjects(ctx context.Context) error {
	for i, id := range in.kept.Responses {
		answer, err := in.do(ctx, http.MethodGet, "/v1/responses/"+id, "")
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("round %d of the upgrade is kept", i+1); !bytes.Contains(answer, []byte(want)) {
			return fmt.Errorf("response %s does not have %q: %s", id, want, lastBytes(string(answer), 500))
		}
	}
	for _, path := range in.kept.Images {
		if answer, err := in.do(ctx, http.MethodGet, path, ""); err != nil || len(answer) == 0 {
			return fmt.Errorf("image %s: %d bytes, %w", path, len(answer), err)
		}
	}
	return nil
}

// checkTrace has a version pack the trace of a call, and looks for the prompt in it.
func (in *installation) checkTrace(ctx context.Context, binary string) error {
	file := filepath.Join(in.stage.dir, in.name()+"-bundle.tar.gz")
	defer os.Remove(file)
	if _, err := in.command(ctx, binary, "trace", "bundle", in.kept.Traced, "--out", file); err != nil {
		return err
	}
	packed, err := os.Open(file)
	if err != nil {
		return err
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(unpacked)
	if err == nil && !bytes.Contains(text, []byte(in.kept.Prompt)) {
		err = fmt.Errorf("the trace of %s does not have %q", in.kept.Traced, in.kept.Prompt)
	}
	return err
}
