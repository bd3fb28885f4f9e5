package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// What happens to a daemon with a headless language server, by the names that stand in the report.
// The language server is the stand-in of the binary; it asks the simulator, which runs in a process
// of its own.
const (
	headlessAnswer  = "a conversation through the language server"
	headlessKilled  = "the language server is killed between calls"
	headlessAccount = "the account changes"
	headlessOrphan  = "perigee is killed"
	headlessAgain   = "perigee is started again"
)

// headlessInstall is what the scenarios need beside perigee.
const headlessInstall = "nothing"

func headlessServers() []client {
	return []client{{
		name: "headless language server", version: "stand-in", install: headlessInstall,
		scenarios: []string{headlessAnswer, headlessKilled, headlessAccount, headlessOrphan, headlessAgain},
		run: func(ctx context.Context, s *stage, c client, r *report) {
			if runtime.GOOS == "windows" {
				r.skip(c, "processes are killed by signals")
				return
			}
			limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
			defer cancel()
			h, err := newHeadless(limited, s, "headless", headlessConfig(s.key, s.provider.target, "limits: {drain: 2s}", ""))
			steps := map[string]func(context.Context) error{
				headlessAnswer: h.answers, headlessKilled: h.survivesKill, headlessAccount: h.changesAccount,
				headlessOrphan: h.leavesNothing, headlessAgain: h.startsAgain,
			}
			for _, scenario := range c.scenarios {
				if err == nil {
					r.add(c, scenario, steps[scenario](limited))
				} else {
					r.add(c, scenario, err)
				}
			}
		},
	}}
}

// A headless is a daemon whose only upstream is a language server.
type headless struct {
	stage  *stage
	name   string
	config string
	daemon *process
	url    string
	asked  int
}

// headlessConfig has a language server that signs in at the simulator and asks it. The last two are
// further keys, of the file and of the upstream.
func headlessConfig(key, simulator, more, moreOfUpstream string) string {
	return fmt.Sprintf(`%[3]s
keys: [{name: client, secret: %[1]s}]
upstreams:
  - name: desk
    kind: langserver
    accept_terms_risk: true
    binary: simulator
    oauth: {token_url: "%[2]s/token", userinfo_url: "%[2]s/oauth2/v2/userinfo", client_id: e2e, client_secret: e2e-secret}
%[4]s`, key, simulator, more, cmp.Or(moreOfUpstream, fmt.Sprintf("    cloud_url: %q\n", simulator)))
}

// newHeadless starts a daemon with two accounts.
func newHeadless(ctx context.Context, s *stage, name, config string) (*headless, error) {
	h := &headless{stage: s, name: name, config: filepath.Join(s.dir, name+".yaml")}
	if err := os.WriteFile(h.config, []byte(config), 0o600); err != nil {
		return h, err
	}
	if err := os.MkdirAll(filepath.Join(s.dir, name), 0o700); err != nil {
		return h, err
	}
	accounts := filepath.Join(s.dir, name+"-accounts.json")
	if err := os.WriteFile(accounts, []byte(headlessAccounts), 0o600); err != nil {
		return h, err
	}
	if _, err := h.perigee(ctx, "account", "import", accounts); err != nil {
		return h, err
	}
	return h, h.serve(ctx)
}

const headlessAccounts = `[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"},{"email":"bob@example.com","refresh_token":"sim-refresh-bob"}]`

func (h *headless) serve(ctx context.Context) (err error) {
	h.daemon, err = h.stage.launch(ctx, h.name, h.stage.binary, "serve", "--config", h.config, "--listen", "127.0.0.1:0")
	if err == nil {
		h.url = h.daemon.address
	}
	return err
}

// perigee runs a command beside the daemon.
func (h *headless) perigee(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, h.stage.binary, append(args, "--config", h.config)...)
	cmd.Env = h.stage.env(h.name)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, firstLines(string(exit.Stderr), 3))
		}
		return "", fmt.Errorf("perigee %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// A langserverStatus is what perigee says about its language server.
type langserverStatus struct {
	Upstream, State, Account string
	PID, Restarts            int
	LastExit                 string `json:"last_exit"`
}

func (h *headless) status(ctx context.Context) (langserverStatus, error) {
	out, err := h.perigee(ctx, "langserver", "status", "--json")
	if err != nil {
		return langserverStatus{}, err
	}
	var list []langserverStatus
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 {
		return langserverStatus{}, fmt.Errorf("perigee langserver status says %q", out)
	}
	return list[0], nil
}

// await asks for the status until it is as wanted.
func (h *headless) await(ctx context.Context, what string, wanted func(langserverStatus) bool) (langserverStatus, error) {
	for {
		status, err := h.status(ctx)
		if err == nil && wanted(status) {
			return status, nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return status, fmt.Errorf("%s: the status is still %+v, %v", what, status, err)
		}
	}
}

// ask has the model repeat a new word.
func (h *headless) ask(ctx context.Context) error {
	h.asked++
	word := fmt.Sprintf("headless-%d", h.asked)
	body, err := json.Marshal(map[string]any{
		"model":    "gemini-3-flash",
		"messages": []any{map[string]any{"role": "user", "content": "[[text: " + word + "]]"}},
	})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+h.stage.key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || !bytes.Contains(said, []byte(word)) {
		return fmt.Errorf("asked for %s: status %d: %s", word, response.StatusCode, firstLines(string(said), 5))
	}
	return nil
}

func (h *headless) answers(ctx context.Context) error {
	if err := h.ask(ctx); err != nil {
		return err
	}
	_, err := h.await(ctx, "after an answer", func(s langserverStatus) bool { return s.State == "ready" && s.PID > 0 })
	return err
}

// survivesKill kills the language server. The next call is answered by its successor.
func (h *headless) survivesKill(ctx context.Context) error {
	before, err := h.status(ctx)
	if err != nil {
		return err
	}
	if err := kill(before.PID); err != nil {
		return err
	}
	if err := h.ask(ctx); err != nil {
		return err
	}
	after, err := h.status(ctx)
	if err != nil {
		return err
	}
	if after.PID == before.PID || after.Restarts != before.Restarts+1 || after.LastExit == "" {
		return fmt.Errorf("the status was %+v, and is %+v after the kill", before, after)
	}
	return nil
}

// changesAccount has the owner prefer the account that is not in use.
func (h *headless) changesAccount(ctx context.Context) error {
	before, err := h.status(ctx)
	if err != nil {
		return err
	}
	next := "bob@example.com"
	if before.Account == next {
		next = "ada@example.com"
	}
	if _, err := h.perigee(ctx, "account", "use", next); err != nil {
		return err
	}
	if _, err := h.await(ctx, "after another account was preferred", func(s langserverStatus) bool { return s.Account == next }); err != nil {
		return err
	}
	return h.ask(ctx)
}

// leavesNothing kills perigee. Its language server ends as well.
func (h *headless) leavesNothing(ctx context.Context) error {
	before, err := h.await(ctx, "before the kill", func(s langserverStatus) bool { return s.State == "ready" && s.PID > 0 })
	if err != nil {
		return err
	}
	h.daemon.end(os.Kill)
	for groupRuns(before.PID) {
		if pause(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("process group %d of the language server is still there", before.PID)
		}
	}
	return nil
}

func (h *headless) startsAgain(ctx context.Context) error {
	if err := h.serve(ctx); err != nil {
		return err
	}
	return h.ask(ctx)
}
