//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"perigee"
	"perigee/internal/langserver/connectframe"
	"perigee/internal/langserver/extserver"
)

const (
	service         = "/exa.extension_server_pb.ExtensionServerService/" // path of the methods, before their names
	subscribeMethod = "SubscribeToUnifiedStateSyncTopic"
	pushMethod      = "PushUnifiedStateSyncUpdate"
)

// accessToken is what GetSecretValue answers. The plain handler has the same answer ready.
var accessToken = strings.Repeat("t", 200)

// serve is a server process: it writes its port and its CSRF token, and ends when stdin does.
func serve(role string) error {
	var port int
	csrf := "none"
	switch role {
	case "bare":
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		port = listener.Addr().(*net.TCPAddr).Port
		go func() { _ = http.Serve(listener, &bareServer{streams: map[chan []byte]bool{}}) }()
	case "extserver":
		server := extserver.New(extserver.Options{})
		if err := server.Start(context.Background()); err != nil {
			return err
		}
		server.SetToken(extserver.Token{Access: perigee.NewSecret(accessToken), Expiry: time.Now().Add(time.Hour)})
		port, csrf = server.Port(), server.CSRF().Reveal()
		defer server.Close(context.Background())
	default:
		return fmt.Errorf("no role is called %q", role)
	}
	fmt.Println(port, csrf)
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// A bareServer has the same answers without checking or decoding requests.
type bareServer struct {
	mu      sync.Mutex
	streams map[chan []byte]bool
}

func (s *bareServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	contentType := r.Header.Get("Content-Type")
	w.Header().Set("Content-Type", contentType)
	switch method := strings.TrimPrefix(r.URL.Path, service); {
	case method == subscribeMethod:
		s.stream(w, r)
	case method == pushMethod:
		s.mu.Lock()
		defer s.mu.Unlock()
		for updates := range s.streams {
			updates <- body
		}
		_, _ = io.WriteString(w, "{}")
	case contentType == "application/json":
		_, _ = io.WriteString(w, `{"value":"`+accessToken+`"}`)
	default:
		_, _ = io.WriteString(w, "\x0a\xc8\x01"+accessToken)
	}
}

// stream writes what is pushed.
func (s *bareServer) stream(w http.ResponseWriter, r *http.Request) {
	updates := make(chan []byte, 8)
	s.mu.Lock()
	s.streams[updates] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, updates)
	}()
	message := []byte("\x0a\x00")
	for {
		if _, err := w.Write(connectframe.Frame(nil, 0, message)); err != nil {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case message = <-updates:
		case <-r.Context().Done():
			return
		}
	}
}

// A process is a server of this program.
type process struct {
	command *exec.Cmd
	stdin   io.Closer
	address string
	csrf    string
}

func start(ctx context.Context, role string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, program, "role", role)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{command: command, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	port, csrf, ok := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !ok {
		_ = p.stop()
		return nil, fmt.Errorf("%s wrote %q: %w", role, line, err)
	}
	p.address, p.csrf = net.JoinHostPort("127.0.0.1", port), csrf
	return p, nil
}

func (p *process) stop() error {
	_ = p.stdin.Close()
	return p.command.Wait()
}

// cpu is the time that the process has used.
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	// Fields 14 and 15, counted from the one after the name in parentheses, which is the third.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // Linux reports in hundredths of a second on every platform of Go
	return time.Duration(user+system) * tick, err
}

// resident is the memory of the process.
func (p *process) resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS")
}
