package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee/internal/lib/procgroup"
)

// An agent is a coding agent's program: how it is set up, asked, and made to use its tools.
type agent struct {
	name    string
	install string
	library string // whose version is pinned
	model   string
	missing string    // an unknown model, with a name that the agent accepts
	says    string    // what it then tells its user; the nearest name, when it repeats what perigee said
	sockets bool      // it must ask over a WebSocket
	brief   bool      // it asks a question and runs one loop
	gateway bool      // it is answered by the Antigravity gateway, and shows its loops only
	carried bool      // its calls travel inside those of a language server; it runs one loop and looks at a picture
	blind   bool      // it keeps pictures to itself, whatever way it asks
	from    *provider // answers it; nil for the daemons of the stage
	reads   bool      // it reads the file of a loop, because its shell loses output now and then
	served  bool      // it is asked through one server, because its start takes seconds

	prepare func(errand) error                            // writes the settings
	command func(errand) invocation                       // asks the errand's prompt
	answer  func(e errand, stdout []byte) (string, error) // the last words of the model, not those of the prompt

	// The directives that make the simulated model use the agent's own tools.
	shell func(command string) string
	read  func(path string) string
	look  func(path string) string
}

// An errand is one run of an agent, in a home and a folder of its own.
type errand struct {
	home, work string
	base, key  string
	model      string
	prompt     string
	mcp        *mcpServer // nil means none

	openCode *openCodeServer // asks, instead of a program that is started; nil means none
	provider string          // the one of its settings
}

// An invocation is how a program is started.
type invocation struct {
	argv  []string
	env   []string
	stdin string
}

// errandLimit is how long an agent may take; most of them retry for minutes when something is
// wrong.
const errandLimit = 4 * time.Minute

var agentScenarios = []string{question, toolLoop, parallel, image, refusal}

func (a agent) client() client {
	scenarios := slices.Clone(agentScenarios)
	if a.gateway {
		scenarios = []string{question, toolLoop, parallel}
	}
	if a.brief {
		scenarios = []string{question, toolLoop}
	}
	if a.carried {
		scenarios = []string{toolLoop, image}
	}
	if a.blind {
		scenarios = slices.DeleteFunc(scenarios, func(s string) bool { return s == image })
	}
	return client{
		name: a.name, version: pinnedPackage(a.install, a.library), install: a.install, scenarios: scenarios, carried: a.carried,
		run: func(ctx context.Context, s *stage, c client, r *report) {
			var together sync.WaitGroup
			for _, scenario := range c.scenarios {
				if scenario == refusal { // most of its time is spent between the agent's tries
					together.Go(func() { r.add(c, scenario, a.try(ctx, s, scenario)) })
				}
			}
			for _, scenario := range c.scenarios {
				if scenario != refusal {
					r.add(c, scenario, a.try(ctx, s, scenario))
				}
			}
			together.Wait()
		},
	}
}

// try runs one scenario in a fresh home.
func (a agent) try(ctx context.Context, s *stage, scenario string) error {
	home, err := os.MkdirTemp(s.dir, "home-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	e := errand{home: home, work: filepath.Join(home, "work"), base: s.simulated, key: s.key, model: a.model}
	if err := os.Mkdir(e.work, 0o700); err != nil {
		return err
	}
	switch {
	case a.gateway:
		e.base = s.gateway
	case a.from != nil:
		daemon, err := s.serveFrom(ctx, a.from)
		if err != nil {
			return err
		}
		e.base = daemon.daemon
	case a.carried:
		if e.base, err = s.serveCarried(ctx); err != nil {
			return err
		}
	case scenario == image:
		e.base = s.watched
	}
	if a.served && scenario != refusal { // a server retries for a minute where the program tells its user at once
		if e.openCode, err = s.serveOpenCode(ctx); err != nil {
			return err
		}
		e.work, e.provider = e.openCode.work, openCodeProvider(strings.TrimPrefix(a.name, "opencode "), e.base == s.watched)
	}
	if !a.sockets {
		return a.play(ctx, e, s.witness, scenario)
	}
	door, err := newDoor(e.base)
	if err != nil {
		return err
	}
	defer door.close()
	e.base = door.url
	return errors.Join(a.play(ctx, e, s.witness, scenario), door.used())
}

func (a agent) play(ctx context.Context, e errand, w *witness, scenario string) error {
	switch scenario {
	case question:
		return a.asks(ctx, e)
	case toolLoop:
		if a.reads {
			return a.loops(ctx, e, a.read(filepath.Join(e.work, "north.txt")))
		}
		return a.loops(ctx, e, a.shell("cat north.txt"))
	case parallel:
		return a.loops(ctx, e, a.shell("cat north.txt")+" "+a.read(filepath.Join(e.work, "south.txt")))
	case image:
		return a.looks(ctx, e, w)
	case refusal:
		return a.isRefused(ctx, e)
	}
	return fmt.Errorf("there is no scenario %q for agents", scenario)
}

func (a agent) asks(ctx context.Context, e errand) error {
	wanted := newToken()
	e.prompt = "[[text: it is " + wanted + "]] [[chunks: 2]] [[pace: 1300ms]]" // with a silence that perigee fills with a sign of life
	said, err := a.do(ctx, e)
	if err != nil {
		return err
	}
	if !strings.Contains(said, wanted) || strings.Contains(said, "[[") {
		return fmt.Errorf("the agent says %q, not what the model said, which is %q", said, wanted)
	}
	return nil
}

// asksAs asks a question of a model at a daemon, in a fresh home.
func (a agent) asksAs(ctx context.Context, s *stage, base, model string) error {
	home, err := os.MkdirTemp(s.dir, "home-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	e := errand{home: home, work: filepath.Join(home, "work"), base: base, key: s.key, model: model}
	if err := os.Mkdir(e.work, 0o700); err != nil {
		return err
	}
	if err := a.asks(ctx, e); err != nil {
		return fmt.Errorf("model %s: %w", model, err)
	}
	return nil
}

// loops has the agent read files whose content only its tools can know, and which the model then
// quotes.
func (a agent) loops(ctx context.Context, e errand, directives string) error {
	var wanted []string
	for _, name := range []string{"north.txt", "south.txt"} {
		token := newToken()
		if strings.Contains(directives, name) {
			wanted = append(wanted, token)
		}
		if err := os.WriteFile(filepath.Join(e.work, name), []byte(token+"\n"), 0o600); err != nil {
			return err
		}
	}
	e.prompt = directives
	said, err := a.do(ctx, e)
	if err != nil {
		return err
	}
	for _, token := range wanted {
		if !strings.Contains(said, token) {
			return fmt.Errorf("the agent says %q, without %s, which its tool has read", said, token)
		}
	}
	return nil
}

// looks has the agent open a picture, which must reach the provider.
func (a agent) looks(ctx context.Context, e errand, w *witness) error {
	path := filepath.Join(e.work, "picture.png")
	if err := os.WriteFile(path, w.png, 0o600); err != nil {
		return err
	}
	e.prompt = a.look(path)
	said, err := a.do(ctx, e)
	if err != nil {
		return err
	}
	if said == "" {
		return errors.New("the agent says nothing after it has seen the picture")
	}
	return w.pictureArrived()
}

// isRefused asks an unknown model. The agent must fail in time, and tell its user what is wrong.
func (a agent) isRefused(ctx context.Context, e errand) error {
	e.model, e.prompt = a.missing, "hello"
	said, err := a.do(ctx, e)
	switch {
	case err == nil:
		return fmt.Errorf("the agent is content, and says %q", said)
	case errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), a.says):
		return fmt.Errorf("the agent does not say %q when its model is missing: %w", a.says, err)
	}
	return nil
}

// do runs the agent and returns what it says at last.
func (a agent) do(ctx context.Context, e errand) (string, error) {
	if e.openCode != nil {
		return e.openCode.ask(ctx, e)
	}
	if err := a.prepare(e); err != nil {
		return "", fmt.Errorf("write the settings of the agent: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, errandLimit)
	defer cancel()
	how := a.command(e)
	cmd := exec.CommandContext(ctx, how.argv[0], how.argv[1:]...)
	cmd.Dir = e.work
	cmd.Env = append([]string{"HOME=" + e.home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + e.home, "TERM=dumb", "LANG=C.UTF-8"}, how.env...)
	if how.stdin != "" {
		cmd.Stdin = strings.NewReader(how.stdin)
	}
	endChildren := ownGroup(cmd) // agents start servers, which must not outlive them
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	endChildren()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, lastBytes(stdout.String()+"\n"+stderr.String(), 3000))
	}
	return a.answer(e, stdout.Bytes())
}

func newToken() string { return "tok" + rand.Text() }

func lastBytes(text string, n int) string {
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-n):]
}

// ownGroup puts a command that is not started yet into a process group of its own, which ends with
// its context or when the returned function is called.
func ownGroup(cmd *exec.Cmd) (end func()) {
	procgroup.Own(cmd)
	return func() { _ = procgroup.Kill(cmd.Process) } // there may be no process left
}
