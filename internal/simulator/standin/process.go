package standin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
)

// A Command is how the process was started.
type Command struct {
	Args           []string // without the program and its subcommands
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
}

// process is a running language server.
type process struct {
	settings
	options
	log      *glog
	faults   *faults
	stdin    io.Reader
	started  time.Time
	gemini   string // the directory .gemini
	data     string // the data directory below it
	metadata *codeiumcommonpb.Metadata
	done     chan string // the reason to end, from a life line or a call
	exit     func(code int)

	extension     *extension
	tokens        *tokens
	cloud         *cloud
	conversations *conversations

	eating sync.Once
	eaten  []byte // by a fault
}

// changelist is the output of --stamp: the number of a change to the sources, not a version.
const changelist = "842159234"

// Main is the process. It returns its exit code, or ends the process at once if a fault requires
// it.
func Main(ctx context.Context, command Command) int {
	for _, arg := range command.Args {
		if strings.TrimLeft(arg, "-") == "help-standin" {
			io.WriteString(command.Stdout, Usage())
			return 0
		}
	}
	settings, err := parseSettings(command.Getenv(Variable))
	if err != nil {
		fmt.Fprintln(command.Stderr, "perigee:", err)
		return 2
	}
	options, code, run := parseFlags(settings.generation, command.Args, command.Stderr)
	if !run {
		return code
	}
	if options.stamp {
		fmt.Fprintln(command.Stdout, changelist)
		return 0
	}
	if settings.generation == hub2 {
		if settings.generation = hub; options.extensionPort != 0 {
			settings.generation = classic2
		}
	}
	p := &process{settings: settings, options: *options, log: &glog{out: command.Stderr}, stdin: command.Stdin,
		started: time.Now(), done: make(chan string, 1), exit: os.Exit}
	if err := p.layOut(command.Getenv("HOME")); err != nil {
		p.log.error("%v", err)
		return 1
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := p.run(ctx); err != nil {
		p.log.error("%v", err)
		return 1
	}
	return 0
}

// layOut makes the data directory.
func (p *process) layOut(home string) error {
	p.gemini = p.geminiDir
	if p.gemini == "" {
		if home == "" {
			return errors.New("failed to find the home directory: $HOME is not defined")
		}
		p.gemini = filepath.Join(home, ".gemini")
	}
	if strings.ContainsAny(p.appDataDir, `/\`) || p.appDataDir == "" {
		return fmt.Errorf("app_data_dir %q is not the name of a directory", p.appDataDir)
	}
	p.data = filepath.Join(p.gemini, p.appDataDir)
	for _, dir := range []string{"conversations", "brain", "implicit"} {
		if err := os.MkdirAll(filepath.Join(p.data, dir), 0o755); err != nil {
			return fmt.Errorf("failed to create the app data directory: %w", err)
		}
	}
	p.faults = &faults{values: p.settings.faults, dir: filepath.Join(p.data, "standin")}
	path := filepath.Join(p.data, "installation_id")
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return os.WriteFile(path, []byte(newUUID()), 0o644)
}

// run starts the server and waits for its end. An error ends the process with exit code 1.
func (p *process) run(ctx context.Context) error {
	p.log.info("Starting language server process with pid %d", os.Getpid())
	p.failEarly()
	if p.faults.due("hang-at-start") {
		<-ctx.Done()
		return nil
	}
	if p.generation == classic2 && p.extensionPort != 0 && p.extensionCSRF == "" {
		return errors.New("extension_server_csrf_token is required with extension_server_port")
	}
	if err := p.readMetadata(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if err := p.followParent(); err != nil {
		return err
	}
	if d := p.faults.duration("slow-start"); d > 0 && !sleep(ctx, d) {
		return nil
	}
	if err := p.connect(); err != nil {
		return err
	}
	ports, err := p.serve(ctx)
	if err != nil {
		return err
	}
	defer ports.close()
	if p.persistent {
		if err := p.announce(ports); err != nil {
			return err
		}
	}
	p.log.info("initialized server successfully in %dms", time.Since(p.started).Milliseconds())
	if p.extension != nil {
		go p.extension.run(ctx, ports)
	}
	go p.cloud.run(ctx)
	if d := p.faults.duration("crash-after"); d > 0 {
		time.AfterFunc(d, func() { p.crash("crash-after") })
	}
	select {
	case <-ctx.Done():
		p.log.info("received a signal, exiting")
	case reason := <-p.done:
		p.log.info("exiting: %s", reason)
	}
	return nil
}

// connect makes the clients of the process and loads its stored state.
func (p *process) connect() error {
	p.tokens = newTokens(p)
	if p.extensionPort != 0 {
		p.extension = newExtension(p)
	}
	p.cloud = newCloud(p)
	p.conversations = newConversations(p)
	return nil
}

// failEarly carries out the faults that come first.
func (p *process) failEarly() {
	if _, ok := p.faults.has("ignore-exit"); ok {
		signal.Ignore(syscall.SIGTERM, os.Interrupt)
		ignored := make(chan os.Signal, 1)
		signal.Notify(ignored, syscall.SIGTERM, os.Interrupt)
		go func() {
			for s := range ignored {
				p.log.info("ignoring the signal %v", s)
			}
		}()
	}
	if d := p.faults.duration("leave-child"); d > 0 {
		child := exec.Command("sleep", fmt.Sprint(d.Seconds()))
		if err := child.Start(); err != nil {
			p.log.error("failed to start a child: %v", err)
		} else {
			p.log.info("started child %d", child.Process.Pid)
		}
	}
	for range p.faults.size("big-stderr") {
		line := strings.Repeat("x", 1023) + "\n"
		p.log.raw(strings.Repeat(line, 1024))
	}
	if p.faults.due("crash-at-start") {
		p.crash("crash-at-start")
	}
}

const maxMetadata = 1 << 20

// readMetadata reads the message on standard input up to its end. The hub has none; its standard
// input may be its life line.
func (p *process) readMetadata(ctx context.Context) error {
	p.metadata = &codeiumcommonpb.Metadata{}
	if p.generation == hub {
		p.metadata.IdeName, p.metadata.IdeVersion = "antigravity", p.overrideVersion
		if p.exitOnStdin {
			go func() {
				_, _ = io.Copy(io.Discard, p.stdin)
				p.lifelineLost("standard input was closed")
			}()
		}
		return nil
	}
	type result struct {
		body []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		body, err := io.ReadAll(io.LimitReader(p.stdin, maxMetadata))
		read <- result{body, err}
	}()
	select {
	case <-ctx.Done():
		return nil
	case r := <-read:
		if r.err != nil {
			return fmt.Errorf("failed to read initial metadata from stdin: %w", r.err)
		}
		if err := proto.Unmarshal(r.body, p.metadata); err != nil {
			return fmt.Errorf("failed to unmarshal initial metadata: %w", err)
		}
	}
	return nil
}

// followParent connects to the socket of the parent and ends the process when it closes. Without a
// listener there are no ports.
func (p *process) followParent() error {
	if p.parentPipe == "" {
		return nil
	}
	pipe, err := dialPipe(p.parentPipe)
	if err != nil {
		return fmt.Errorf("failed to connect to parent pipe: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, pipe)
		p.lifelineLost("parent pipe was closed")
	}()
	return nil
}

func (p *process) lifelineLost(reason string) {
	if _, ok := p.faults.has("ignore-lifeline"); ok {
		p.log.warn("ignoring that %s", reason)
		return
	}
	p.finish(reason)
}

// finish ends the process with exit code 0.
func (p *process) finish(reason string) {
	select {
	case p.done <- reason:
	default: // it is ending already
	}
}

// ideVersion returns the version that is sent to the cloud.
func (p *process) ideVersion() string {
	if v := p.metadata.GetIdeVersion(); v != "" {
		return v
	}
	return p.version
}

// sleep reports whether the time passed before the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
