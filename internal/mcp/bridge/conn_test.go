package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/mcp/ask"
	"perigee/internal/testing/bridgetest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// windowOf is a window as its announcement describes it.
func windowOf(w *bridgetest.Window) Window {
	return Window{PID: w.PID, IDE: IDE{"Antigravity", "1.20.5"}, Workspace: w.Workspace, Port: w.Port, Token: perigee.NewSecret(w.Token)}
}

func dial(t *testing.T, w *bridgetest.Window) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), windowOf(w), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// The protocol has llm/ask, and no member follow: only a window that says so can do no more than
// take a prompt.
func TestCapabilities(t *testing.T) {
	for text, want := range map[string]Capabilities{
		`{"llm": true, "fs": true, "state": true, "ui": true}`: {LLM: true, State: true, Follow: true},
		`{"llm": true, "follow": false}`:                       {LLM: true},
		`{"llm": true, "follow": true}`:                        {LLM: true, Follow: true},
		`{"fs": true}`:                                         {},
		`{"follow": true}`:                                     {},
	} {
		var got Capabilities
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

func TestHelloTellsOfTheWindow(t *testing.T) {
	w := bridgetest.Start(t, bridgetest.Options{Workspace: []string{"/code/a"}, LanguageServerPort: 4711, CSRFToken: "csrf-secret"})
	c := dial(t, w)
	h := c.Hello
	if h.IDE.Version != "1.20.5" || fmt.Sprint(h.Workspace) != "[/code/a]" || !h.Capabilities.Follow || !h.Capabilities.LLM || h.Busy {
		t.Errorf("%+v", h)
	}
	if ls := h.LanguageServer; ls == nil || ls.Port != 4711 || ls.HTTPSPort != 0 || !ls.CSRF.Equal("csrf-secret") {
		t.Errorf("%+v", ls)
	}
	if text := fmt.Sprintf("%+v %#v", h.LanguageServer, h); strings.Contains(text, "csrf-secret") {
		t.Errorf("the token is shown: %s", text)
	}
}

func TestAskWithProgress(t *testing.T) {
	seen := make(chan struct{}, 2)
	w := bridgetest.Start(t, bridgetest.Options{Ask: func(ctx context.Context, a *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
		if *a.Model != "gemini" || *a.Workspace != "/code/a" || *a.Conversation != "before" || *a.TimeoutSeconds != 90 || !*a.ReadOnly {
			return bridgetest.Result{}, &bridgetest.Error{Code: -32602, Message: "wrong parameters"}
		}
		a.Raw(`{"jsonrpc":"2.0","method":"window/news","params":[1,2]}`)
		a.Raw(`{"jsonrpc":"2.0","id":4711,"result":{}}`)
		a.Raw(`{"jsonrpc":"2.0","id":"4711","error":{"code":-1,"message":"no"}}`)
		a.Raw(`{"jsonrpc":"2.0","method":"llm/progress","params":{"id":"another","text":"of another ask"}}`)
		a.Raw(`{"jsonrpc":"2.0","method":"llm/progress","params":"odd"}`)
		for _, text := range []string{"one", "two"} {
			a.Progress(text, len(text))
			select {
			case <-seen:
			case <-ctx.Done():
			}
		}
		return bridgetest.Result{Text: "three", Conversation: "c1", Status: "done", Usage: map[string]int{"input": 5, "cached": 1, "output": 7}}, nil
	}})
	c := dial(t, w)
	var progress []ask.Progress
	answer, err := c.Ask(t.Context(), ask.Request{
		ID: "a1", Prompt: "hello", Model: "gemini", Workspace: "/code/a", Conversation: "before", Timeout: 90 * time.Second, ReadOnly: true,
	}, func(p ask.Progress) { progress = append(progress, p); seen <- struct{}{} })
	if err != nil || answer.Text != "three" || answer.Conversation != "c1" || answer.Status != ask.Done {
		t.Errorf("%+v, %v", answer, err)
	}
	if u := answer.Usage; u == nil || *u != (perigee.Usage{Input: 5, Cached: 1, Output: 7}) {
		t.Errorf("usage %+v", u)
	}
	if fmt.Sprint(progress) != "[{one 3} {two 3}]" {
		t.Errorf("progress %v", progress)
	}
}

// Asks on one connection do not mix.
func TestTwentyAsksAtOnce(t *testing.T) {
	var asked atomic.Int32
	all := make(chan struct{})
	w := bridgetest.Start(t, bridgetest.Options{Ask: func(ctx context.Context, a *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
		if asked.Add(1) == 20 {
			close(all)
		}
		select {
		case <-all: // are open at once
		case <-ctx.Done():
		}
		a.Progress("progress of "+a.Prompt, 1)
		return bridgetest.Result{Text: "answer to " + a.Prompt, Conversation: "c-" + a.ID, Status: "done"}, nil
	}})
	c := dial(t, w)
	var asks sync.WaitGroup
	for i := range 20 {
		asks.Go(func() {
			id, prompt := fmt.Sprint("ask-", i), fmt.Sprint("prompt ", i)
			answer, err := c.Ask(t.Context(), ask.Request{ID: id, Prompt: prompt}, func(p ask.Progress) {
				if p.Text != "progress of "+prompt {
					t.Errorf("%s: %+v", id, p)
				}
			})
			if err != nil || answer.Text != "answer to "+prompt || answer.Conversation != "c-"+id {
				t.Errorf("%s: %+v, %v", id, answer, err)
			}
		})
	}
	await.Return(t, asks.Wait, "all asks")
}

func TestCancelReachesTheAgent(t *testing.T) {
	started := make(chan struct{})
	w := bridgetest.Start(t, bridgetest.Options{Ask: func(ctx context.Context, a *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
		close(started)
		select {
		case <-a.Cancelled:
		case <-ctx.Done():
		}
		return bridgetest.Result{Text: "so far", Conversation: "c1", Status: "cancelled"}, nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	answer, err := dial(t, w).Ask(ctx, ask.Request{ID: "a1", Prompt: "hello"}, nil)
	if err != nil || answer.Status != ask.Cancelled || answer.Text != "so far" || answer.Conversation != "c1" {
		t.Errorf("%+v, %v", answer, err)
	}
}

// An ask that is out of time leaves the agent working, and names the conversation to continue.
func TestTimeoutLeavesTheAgentWorking(t *testing.T) {
	over := make(chan bool, 1)
	w := bridgetest.Start(t, bridgetest.Options{Ask: func(ctx context.Context, a *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
		a.ProgressIn("c1", "")
		a.Progress("so far", 2)
		select {
		case <-a.Cancelled:
			over <- false
		case <-ctx.Done():
			over <- true
		}
		return bridgetest.Result{}, nil
	}})
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	c := dial(t, w)
	answer, err := c.Ask(ctx, ask.Request{ID: "a1", Prompt: "hello"}, func(p ask.Progress) {
		if p.Text == "so far" {
			end(ask.ErrTimeout)
		}
	})
	if err != nil || answer.Status != ask.Timeout || answer.Text != "so far" || answer.Conversation != "c1" {
		t.Errorf("%+v, %v", answer, err)
	}
	c.Close()
	if !await.Receive(t, over, "the end of the agent") {
		t.Error("the agent was canceled")
	}
}

// A window that ends during an ask leaves open what became of it.
func TestKilledDuringAnAsk(t *testing.T) {
	w := bridgetest.Start(t, bridgetest.Options{Ask: func(ctx context.Context, a *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
		a.ProgressIn("c1", "so far")
		<-ctx.Done()
		return bridgetest.Result{}, nil
	}})
	c := dial(t, w)
	answer, err := c.Ask(t.Context(), ask.Request{ID: "a1", Prompt: "hello"}, func(ask.Progress) { w.Kill() })
	if err != nil || answer.Status != ask.Failed || answer.Error == nil || answer.Error.Class != perigee.ClassUnavailable || answer.Text != "so far" || answer.Conversation != "c1" {
		t.Errorf("%+v, %v", answer, err)
	}
	if answer, err := c.Ask(t.Context(), ask.Request{ID: "a2", Prompt: "hello"}, nil); !errors.Is(err, ask.ErrDeclined) {
		t.Errorf("afterwards: %+v, %v", answer, err)
	}
}

// Errors before the prompt was handed over are errors, later ones are failed answers.
func TestErrorsOfAsks(t *testing.T) {
	for _, test := range []struct {
		code     int
		class    perigee.Class // that the window names
		declined bool
		want     perigee.Class
		answer   ask.Status
	}{
		{-32001, "", true, perigee.ClassUnavailable, ""},
		{-32002, "", true, perigee.ClassUnavailable, ""},
		{-32003, "", true, perigee.ClassCapacity, ""},
		{-32004, "", false, "", ask.Cancelled},
		{-32005, "", false, perigee.ClassForbidden, ""},
		{-32601, "", true, perigee.ClassUnimplemented, ""},
		{-32602, "", false, perigee.ClassInvalid, ""},
		{-32602, "not_found", false, perigee.ClassNotFound, ""},
		{-32602, "nonsense", false, perigee.ClassInvalid, ""},
		{-32603, "", false, perigee.ClassUnavailable, ask.Failed},
		{-32603, "exhausted", false, perigee.ClassExhausted, ask.Failed},
		{12, "", false, perigee.ClassUnavailable, ask.Failed},
	} {
		t.Run(fmt.Sprint(test.code, test.class), func(t *testing.T) {
			var w *bridgetest.Window
			w = bridgetest.Start(t, bridgetest.Options{Ask: func(context.Context, *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
				var data any
				if test.class != "" {
					data = map[string]any{"class": test.class}
				}
				return bridgetest.Result{}, &bridgetest.Error{Code: test.code, Message: "because of " + w.Token, Data: data}
			}})
			answer, err := dial(t, w).Ask(t.Context(), ask.Request{ID: "a1", Prompt: "hello"}, nil)
			if errors.Is(err, ask.ErrDeclined) != test.declined || answer.Status != test.answer || (err == nil) != (test.answer != "") {
				t.Errorf("%+v, %v", answer, err)
			}
			text := fmt.Sprint(err)
			switch {
			case err != nil:
				if class := perigee.AsError(err).Class; class != test.want {
					t.Errorf("class %s, want %s", class, test.want)
				}
			case answer.Error != nil:
				text = answer.Error.Message
				if answer.Error.Class != test.want {
					t.Errorf("class %s, want %s", answer.Error.Class, test.want)
				}
			}
			if strings.Contains(text, w.Token) || test.answer != ask.Cancelled && !strings.Contains(text, "because of [redacted]") {
				t.Errorf("text %q", text)
			}
		})
	}
}

func TestStatusesOfAnswers(t *testing.T) {
	for _, test := range []struct {
		result string
		want   ask.Answer
	}{
		{`{"text":"Which?","conversation":"c","status":"waiting","waiting_for":"a command"}`, ask.Answer{Text: "Which?", Conversation: "c", Status: ask.Waiting, WaitingFor: "a command"}},
		{`{"text":"","conversation":"c","status":"timeout"}`, ask.Answer{Conversation: "c", Status: ask.Timeout}},
		{`{"text":"","conversation":"c","status":"failed","error":{"class":"exhausted","message":"no quota","hint":"wait"}}`,
			ask.Answer{Conversation: "c", Status: ask.Failed, Error: &ask.Failure{Class: perigee.ClassExhausted, Message: "no quota", Hint: "wait"}}},
		{`{"text":"","conversation":"c","status":"failed"}`,
			ask.Answer{Conversation: "c", Status: ask.Failed, Error: &ask.Failure{Class: perigee.ClassUnavailable, Message: "the agent of the editor window failed"}}},
		{`{"text":"t","conversation":"c","status":"odd"}`,
			ask.Answer{Text: "t", Conversation: "c", Status: ask.Failed, Error: &ask.Failure{Class: perigee.ClassUnavailable, Message: `the editor window answered with the unknown status "odd"`,
				Hint: "update perigee or the extension; the conversation is in the IDE"}}},
		{`[]`, ask.Answer{Status: ask.Failed, Error: &ask.Failure{Class: perigee.ClassUnavailable, Message: "the editor window answered with something else",
			Hint: "update perigee or the extension; the conversation is in the IDE"}}},
	} {
		w := bridgetest.Start(t, bridgetest.Options{Ask: func(ctx context.Context, a *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
			a.Raw(`{"jsonrpc":"2.0","id":2,"result":` + test.result + `}`)
			select {
			case <-a.Cancelled: // the second answer is not read
			case <-ctx.Done():
			}
			return bridgetest.Result{}, nil
		}})
		c := dial(t, w)
		answer, err := c.Ask(t.Context(), ask.Request{ID: "a1", Prompt: "hello"}, nil)
		if got, want := dump(t, answer), dump(t, test.want); err != nil || got != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
		if err := c.do(t.Context(), "llm/cancel", object{"id": "a1"}, &struct{}{}); err != nil {
			t.Error(err)
		}
	}
}

func dump(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A window that breaks the protocol loses the connection.
func TestBrokenMessages(t *testing.T) {
	for name, raw := range map[string]string{
		"no JSON": "hello", "a list": `[{"jsonrpc":"2.0","id":2,"result":{}}]`, "no version": `{"id":2,"result":{}}`,
		"no ID": `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`,
		"huge":  `{"jsonrpc":"2.0","id":2,"result":"` + strings.Repeat("x", maxMessage) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := bridgetest.Start(t, bridgetest.Options{Ask: func(ctx context.Context, a *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
				a.Raw(raw)
				<-ctx.Done()
				return bridgetest.Result{}, nil
			}})
			answer, err := dial(t, w).Ask(t.Context(), ask.Request{ID: "a1", Prompt: "hello"}, nil)
			if err != nil || answer.Status != ask.Failed {
				t.Errorf("%+v, %v", answer, err)
			}
			if v := w.Violations(); len(v) != 0 {
				t.Error(v)
			}
		})
	}
}

// Messages of up to 16 MiB pass in both directions; a longer prompt is refused before it is sent.
func TestLargeMessages(t *testing.T) {
	perigeetest.Slow(t)
	w := bridgetest.Start(t, bridgetest.Options{Ask: func(_ context.Context, a *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
		return bridgetest.Result{Text: a.Prompt, Conversation: "c", Status: "done"}, nil
	}})
	c := dial(t, w)
	prompt := strings.Repeat("x", maxMessage-1000)
	if answer, err := c.Ask(t.Context(), ask.Request{ID: "a1", Prompt: prompt}, nil); err != nil || answer.Text != prompt {
		t.Errorf("%d bytes, %v", len(answer.Text), err)
	}
	_, err := c.Ask(t.Context(), ask.Request{ID: "a2", Prompt: strings.Repeat("x", maxMessage)}, nil)
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassInvalid || errors.Is(err, ask.ErrDeclined) {
		t.Errorf("%v", err)
	}
	if answer, err := c.Ask(t.Context(), ask.Request{ID: "a3", Prompt: "short"}, nil); err != nil || answer.Text != "short" {
		t.Errorf("afterwards: %+v, %v", answer, err)
	}
}

// A window whose process is stopped is noticed by pings.
func TestPingsFindDeadConnections(t *testing.T) {
	w := bridgetest.Start(t, bridgetest.Options{Ask: func(ctx context.Context, a *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
		a.Stop()
		a.Progress("stopped", 1)
		<-ctx.Done()
		return bridgetest.Result{}, nil
	}})
	c := dial(t, w)
	answer, err := c.Ask(t.Context(), ask.Request{ID: "a1", Prompt: "hello"}, func(ask.Progress) {
		go c.ping(50 * time.Millisecond)
	})
	if err != nil || answer.Status != ask.Failed || !strings.Contains(answer.Error.Message, "no longer answers") {
		t.Errorf("%+v, %v", answer, err)
	}
}

func TestSubmitRecentAndShow(t *testing.T) {
	w := bridgetest.Start(t, bridgetest.Options{
		Conversations: []map[string]any{{"id": "c1", "title": "one", "workspace": "/w", "modified": "2026-11-16T10:00:00Z", "status": "idle"}, {"id": "c2"}},
		Submit: func(_ context.Context, a *bridgetest.Ask) (any, *bridgetest.Error) {
			if a.Conversation != nil {
				return nil, &bridgetest.Error{Code: -32003, Message: "another prompt"}
			}
			return map[string]any{"submitted": "2026-11-16T10:00:01Z", "before": []any{map[string]any{"id": "c1", "modified": "2026-11-16T10:00:00Z", "steps": 4}}}, nil
		},
	})
	c := dial(t, w)
	s, err := c.Submit(t.Context(), "a1", "hello", "")
	if err != nil || s.Time != "2026-11-16T10:00:01Z" || fmt.Sprint(s.Before) != "[{c1  2026-11-16T10:00:00Z 4}]" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := c.Submit(t.Context(), "a2", "hello", "c1"); !errors.Is(err, ask.ErrDeclined) || !errors.Is(err, errBusy) {
		t.Errorf("%v", err)
	}
	recent, err := c.Recent(t.Context(), 1)
	if err != nil || fmt.Sprint(recent) != "[{c1 /w 2026-11-16T10:00:00Z 0}]" || recent[0].ModifiedAt().Hour() != 10 {
		t.Errorf("%+v, %v", recent, err)
	}
	w.Kill()
	if _, err := c.Recent(t.Context(), 0); err == nil {
		t.Error("no error")
	}
}

func TestDialErrors(t *testing.T) {
	running := bridgetest.Start(t, bridgetest.Options{})
	wrongToken := windowOf(running)
	wrongToken.Token = perigee.NewSecret("wrong")
	dead := windowOf(running)
	dead.Port = closedPort(t)
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	website := windowOf(running)
	website.Port = page.Listener.Addr().(*net.TCPAddr).Port
	redirecting := httptest.NewServer(http.RedirectHandler(fmt.Sprintf("http://127.0.0.1:%d/", running.Port), http.StatusFound))
	defer redirecting.Close()
	redirect := windowOf(running)
	redirect.Port = redirecting.Listener.Addr().(*net.TCPAddr).Port
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	mute := windowOf(running)
	mute.Port = silent.Addr().(*net.TCPAddr).Port

	for _, test := range []struct {
		name   string
		window Window
		state  State
		want   string
	}{
		{"ready", windowOf(running), Ready, ""},
		{"busy", windowOf(bridgetest.Start(t, bridgetest.Options{Busy: true})), Busy, ""},
		{"wrong token", wrongToken, Refused, "refuses the token"},
		{"dead", dead, Unreachable, "cannot be reached"},
		{"website", website, Unreachable, "does not speak the protocol of the extension (status 404)"},
		{"redirect", redirect, Unreachable, "does not speak the protocol of the extension (status 302)"},
		{"silent", mute, Unreachable, "does not answer"},
		{"version 2", windowOf(bridgetest.Start(t, bridgetest.Options{Version: 2})), Incompatible, "another version of the protocol"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.window.Port == mute.Port {
				perigeetest.Slow(t)
			}
			if state, _ := test.window.state(t.Context(), "test"); state != test.state {
				t.Errorf("state %s, want %s", state, test.state)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if test.window.Port == mute.Port {
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			}
			defer cancel()
			c, err := Dial(ctx, test.window, "test")
			if err == nil {
				c.Close()
			}
			if (err == nil) != (test.want == "") || err != nil && (!errors.Is(err, ask.ErrDeclined) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), running.Token) {
				t.Errorf("the token is shown: %v", err)
			}
		})
	}
}

// Connections end with Close, also when the window is stuck.
func TestCloseDoesNotWaitForAStuckWindow(t *testing.T) {
	stopped := make(chan struct{})
	w := bridgetest.Start(t, bridgetest.Options{Ask: func(ctx context.Context, a *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
		a.Stop()
		close(stopped)
		<-ctx.Done()
		return bridgetest.Result{}, nil
	}})
	c := dial(t, w)
	over := make(chan struct{})
	go func() {
		defer close(over)
		if answer, err := c.Ask(t.Context(), ask.Request{ID: "a1", Prompt: "hello"}, nil); err != nil || answer.Status != ask.Failed {
			t.Errorf("%+v, %v", answer, err)
		}
	}()
	await.Receive(t, stopped, "the window")
	c.Close()
	await.Receive(t, over, "the ask")
}

// A listing has all windows, in order, and no tokens.
func TestListWindows(t *testing.T) {
	dir := t.TempDir()
	first := bridgetest.Start(t, bridgetest.Options{Dir: dir, Workspace: []string{"/code/a"}})
	second := bridgetest.Start(t, bridgetest.Options{Dir: dir, Busy: true})
	rows, problems, err := List(t.Context(), dir, "test")
	if err != nil || len(problems) != 0 {
		t.Fatal(problems, err)
	}
	want := fmt.Sprintf(`[{"pid":%d,"ide":"Antigravity","version":"1.20.5","workspace":["/code/a"],"port":%d,"state":"ready"},`+
		`{"pid":%d,"ide":"Antigravity","version":"1.20.5","workspace":[],"port":%d,"state":"busy"}]`, first.PID, first.Port, second.PID, second.Port)
	if got := dump(t, rows); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
