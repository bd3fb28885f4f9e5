package main

import (
	"bufio"
	"bytes"
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
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// An openCodeServer is "opencode serve" in the home of an errand: what its terminal and its desktop
// program talk to.
type openCodeServer struct {
	url  string
	work string // where its tools work
	end  func() // kills it
}

var openCodeAddress = regexp.MustCompile(`listening on (http://127\.0\.0\.1:\d+)`)

func startOpenCode(ctx context.Context, a agent, e errand) (*openCodeServer, error) {
	if err := a.prepare(e); err != nil {
		return nil, err
	}
	how := a.with("serve", "--hostname", "127.0.0.1", "--port", "0").command(e)
	cmd := exec.CommandContext(ctx, how.argv[0], how.argv[1:]...)
	cmd.Dir = e.work
	cmd.Env = append([]string{"HOME=" + e.home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + e.home, "TERM=dumb", "LANG=C.UTF-8"}, how.env...)
	kill := ownGroup(cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := sync.OnceFunc(func() {
		kill()
		_ = cmd.Wait()
	})
	found := make(chan string, 1)
	go func() {
		defer close(found)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if m := openCodeAddress.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
				_, _ = io.Copy(io.Discard, stdout)
				return
			}
		}
	}()
	select {
	case url, ok := <-found:
		if ok {
			return &openCodeServer{url: url, work: e.work, end: end}, nil
		}
	case <-ctx.Done():
	}
	end()
	return nil, fmt.Errorf("opencode serve does not say where it listens: %w", context.Cause(ctx))
}

// serveOpenCode starts a server, once, with a provider for each dialect and each daemon.
func (s *stage) serveOpenCode(ctx context.Context) (*openCodeServer, error) {
	s.openCodeServing.Do(func() {
		home := filepath.Join(s.dir, "opencode")
		e := errand{home: home, work: filepath.Join(home, "work"), key: s.key}
		a := openCode("", "", "")
		a.prepare = func(e errand) error {
			providers := object{}
			for _, d := range openCodeDialects {
				for _, watched := range []bool{false, true} {
					base := s.simulated
					if watched {
						base = s.watched
					}
					known := openCode(d.provider, d.path, d.model)
					providers[openCodeProvider(d.provider, watched)] = openCodeSettings(d.provider, base+d.path, e.key, known.model, known.missing)
				}
			}
			settings, err := json.Marshal(object{
				"small_model": openCodeProvider("google", false) + "/gemini-3-flash", "enabled_providers": slices.Collect(maps.Keys(providers)),
				"permission": "allow", "lsp": false, "formatter": false, "provider": providers,
			})
			if err != nil {
				return err
			}
			return writeSettings(filepath.Join(e.work, "opencode.json"), string(settings))
		}
		s.openCode, s.openCodeFailed = startOpenCode(ctx, a, e)
	})
	return s.openCode, s.openCodeFailed
}

// openCodeProvider names the provider of a dialect; a watched one has the daemon whose provider is
// the witness.
func openCodeProvider(dialect string, watched bool) string {
	if watched {
		return dialect + "-watched"
	}
	return dialect + "-perigee"
}

// ask sends a prompt in a session of its own, and returns the model's last words.
func (s *openCodeServer) ask(ctx context.Context, e errand) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, errandLimit)
	defer cancel()
	session, err := s.newSession(ctx)
	if err != nil {
		return "", err
	}
	var answer message
	if err := callJSON(ctx, http.MethodPost, s.url+"/session/"+session+"/message", object{
		"model": object{"providerID": e.provider, "modelID": e.model}, "parts": []object{{"type": "text", "text": e.prompt}},
	}, &answer); err != nil {
		return "", err
	}
	if answer.Info.Error != nil {
		return "", errors.New(answer.Info.Error.Data.Message)
	}
	var said []string
	for _, p := range answer.Parts {
		if p.Type == "text" {
			said = append(said, p.Text)
		}
	}
	return strings.Join(said, "\n"), nil
}

// callJSON sends body as JSON, and reads the answer into result unless that is nil.
func callJSON(ctx context.Context, method, url string, body, result any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, firstLines(string(said), 3))
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(said, result)
}

func (s *openCodeServer) newSession(ctx context.Context) (id string, err error) {
	var session struct{ ID string }
	err = callJSON(ctx, http.MethodPost, s.url+"/session", object{}, &session)
	return session.ID, err
}

// prompt sends a text with a low thinking level, and does not wait for the answer.
func (s *openCodeServer) prompt(ctx context.Context, session, text string) error {
	return callJSON(ctx, http.MethodPost, s.url+"/session/"+session+"/prompt_async", object{"variant": "low", "parts": []object{{"type": "text", "text": text}}}, nil)
}

func (s *openCodeServer) history(ctx context.Context, session string) (h history, err error) {
	err = callJSON(ctx, http.MethodGet, s.url+"/session/"+session+"/message", nil, &h)
	return h, err
}

// await waits until the history is as wanted.
func (s *openCodeServer) await(ctx context.Context, session string, wanted func(history) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	for {
		h, err := s.history(ctx, session)
		if err == nil && wanted(h) {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			text, _ := json.Marshal(h)
			return fmt.Errorf("%w; the session is %s", context.Cause(ctx), lastBytes(string(text), 3000))
		}
	}
}

// A history is the messages of a session.
type history []message

// A message is one of them, as far as it is looked at here.
type message struct {
	Info struct {
		Role  string
		Error *struct{ Data struct{ Message string } }
	}
	Parts []struct {
		Type, Text string
		State      struct{ Status, Error string }
	}
}

// has reports whether there is a tool call in the state, with the error.
func (h history) has(status, failure string) bool {
	for _, m := range h {
		for _, p := range m.Parts {
			if p.Type == "tool" && p.State.Status == status && p.State.Error == failure {
				return true
			}
		}
	}
	return false
}

// says reports whether the model has answered with the text.
func (h history) says(text string) bool {
	for _, m := range h {
		for _, p := range m.Parts {
			if m.Info.Role == "assistant" && p.Type == "text" && strings.Contains(p.Text, text) {
				return true
			}
		}
	}
	return false
}

// lastError is the error of the last message; empty means there is none.
func (h history) lastError() string {
	if len(h) == 0 || h[len(h)-1].Info.Error == nil {
		return ""
	}
	return h[len(h)-1].Info.Error.Data.Message
}
