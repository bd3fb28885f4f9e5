package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"perigee"
	"perigee/internal/langserver/extserver"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/probe"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/mcp/ask"
	"perigee/internal/simulator"
)

// A rig is the stand-in with everything that it needs.
type rig struct {
	ls     *lsclient.Client
	model  string // as messages name it
	agent  *ask.Agent
	closes []func()
}

func (r *rig) close() {
	for i := len(r.closes) - 1; i >= 0; i-- {
		r.closes[i]()
	}
}

// start starts the stand-in and waits until it knows its models.
func start(ctx context.Context) (r *rig, err error) {
	r = &rig{}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	dir, err := os.MkdirTemp("", "bench-ask-")
	if err != nil {
		return nil, err
	}
	r.closes = append(r.closes, func() { _ = os.RemoveAll(dir) })
	cloud, stop, err := startCloud(ctx)
	if err != nil {
		return nil, err
	}
	r.closes = append(r.closes, stop)
	var process *supervisor.Supervisor
	extension := extserver.New(extserver.Options{Workspace: dir, Started: func(e lsclient.Endpoint) { process.SetEndpoint(e) }})
	if err := extension.Start(ctx); err != nil {
		return nil, err
	}
	r.closes = append(r.closes, func() { _ = extension.Close(context.Background()) })
	extension.SetToken(extserver.Token{Access: perigee.NewSecret("token"), Expiry: time.Now().Add(time.Hour)})
	command := []string{os.Args[0], "simulate", "langserver"}
	found, err := probe.Options{Command: command}.Probe(ctx)
	if err != nil {
		return nil, err
	}
	process = supervisor.New(supervisor.Options{
		Name: "bench", Command: command, Probe: found, Home: filepath.Join(dir, "home"), CloudEndpoint: cloud, StartTimeout: time.Minute,
		Extension: supervisor.Extension{Port: extension.Port(), CSRF: extension.CSRF()},
		Ready: func(ctx context.Context, e supervisor.Endpoint) error {
			return lsclient.New(lsclient.Options{Endpoint: lsclient.Fixed(lsclient.Endpoint(e))}).Ready(ctx, true)
		},
	})
	if err := process.Start(ctx); err != nil {
		return nil, err
	}
	r.closes = append(r.closes, func() { _ = process.Stop(context.Background()) })
	e, err := process.Wait(ctx)
	if err != nil {
		return nil, err
	}
	r.ls = lsclient.New(lsclient.Options{Endpoint: lsclient.Fixed(lsclient.Endpoint(e))})
	models := &lsclient.Catalogue{Client: r.ls}
	model, err := models.Default(ctx, nil)
	r.model = model.Enum
	r.agent = ask.NewAgent(r.ls, ask.AgentOptions{Source: "langserver", Workspaces: []string{dir}, Models: models})
	return r, err
}

// serveCloud is the process of the cloud: it prints its address, and ends with its standard input.
func serveCloud(ctx context.Context) error {
	cloud, err := simulator.New(simulator.Options{AnyToken: true})
	if err != nil {
		return err
	}
	server := httptest.NewServer(cloud)
	defer func() { server.Close(); _ = cloud.Close() }()
	fmt.Println(server.URL)
	_, err = io.Copy(io.Discard, os.Stdin)
	return cmp.Or(err, context.Cause(ctx))
}

// startCloud starts the process of the cloud, and returns its address.
func startCloud(ctx context.Context) (address string, stop func(), err error) {
	command := exec.CommandContext(ctx, os.Args[0], "cloud")
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = in.Close(); _ = command.Wait() }
	if _, err := fmt.Fscanln(out, &address); err != nil {
		stop()
		return "", nil, err
	}
	return address, stop, nil
}

// idle is the status of a conversation whose agent does nothing; that of one that works is higher.
const idle = 1

// direct sends a message and reads the stream of updates until the server says that it is idle
// again.
func (r *rig) direct(ctx context.Context, prompt string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	begin := time.Now()
	id, err := r.ls.Start(ctx, lsclient.StartOptions{})
	if err != nil {
		return 0, err
	}
	sent, ran := false, false
	for update, err := range r.ls.Updates(ctx, id) {
		if err != nil {
			return 0, err
		}
		status := max(update.GetStatus(), update.GetMainTrajectoryUpdate().GetStatus())
		switch {
		case !sent: // the snapshot that begins the stream
			if _, err := r.ls.Send(ctx, id, lsclient.Message{Text: prompt, Model: r.model, Once: true}); err != nil {
				return 0, err
			}
			sent = true
		case status > idle:
			ran = true
		case ran && status == idle:
			return time.Since(begin), nil
		}
	}
	return 0, errors.New("the stream of updates ended before the turn")
}

// ask asks, and returns how long it took in all, and after the last text.
func (r *rig) ask(ctx context.Context, prompt, want string) (whole, rest time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	begin := time.Now()
	last := begin
	answer, err := r.agent.Ask(ctx, ask.Request{Prompt: prompt}, func(p ask.Progress) { last = time.Now() })
	end := time.Now()
	if err == nil && (answer.Status != ask.Done || answer.Text == "" || want != "" && answer.Text != want) {
		err = fmt.Errorf("got %+v", answer)
	}
	return end.Sub(begin), end.Sub(last), err
}
