package measure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	startLimit  = 10 * time.Second // until a process says that it listens
	acceptLimit = time.Minute      // until a process at a given address accepts connections; some set up a lot
)

// A Command says how to start a process.
type Command struct {
	Name, Program string
	Args          []string
	Home          string   // HOME and TMPDIR
	Env           []string // beside those and PATH
	Addr          string   // where it will listen; empty means it writes a line with " on http://ADDR" to stderr
}

// A Process is a child that serves on loopback.
type Process struct {
	Name  string
	Addr  string        // host:port
	Ready time.Duration // from exec to the line that says that it listens
	// ReadyCPU is the processor time until then; 0 where the system does not count it.
	ReadyCPU time.Duration

	pid    int
	cmd    *exec.Cmd
	cancel context.CancelFunc
	done   chan struct{}
}

// Start starts a process and waits until it listens. The process ends when ctx does, by Stop, or
// with this program.
func Start(ctx context.Context, c Command) (*Process, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, c.Program, c.Args...)
	cmd.Env = append(ChildEnv(c.Home), c.Env...)
	dieWithParent(cmd)
	p := &Process{Name: c.Name, Addr: c.Addr, cmd: cmd, cancel: cancel, done: make(chan struct{})}
	start := p.startTelling
	if c.Addr != "" {
		start = func() error { return p.startAt(ctx, c.Home) }
	}
	if err := start(); err != nil {
		cancel()
		return nil, err
	}
	return p, nil
}

// Self is this process, with a server at addr. It cannot be stopped.
func Self(addr string) *Process { return &Process{Name: "this process", Addr: addr, pid: os.Getpid()} }

// startTelling starts a process that says where it listens, and prints what else it says.
func (p *Process) startTelling() error {
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.pid = p.cmd.Process.Pid
	listening := make(chan string, 1)
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(stderr)
		for told := false; lines.Scan(); {
			if _, url, ok := strings.Cut(lines.Text(), " on http"); ok && !told {
				told = true
				p.Ready = time.Since(began)
				p.ReadyCPU, _ = p.CPU()
				addr, _, _ := strings.Cut(url[strings.Index(url, "//")+2:], " ")
				listening <- addr
				continue
			}
			if strings.Contains(lines.Text(), "level=INFO") {
				continue
			}
			fmt.Fprintf(os.Stderr, "bench: %s says: %s\n", p.Name, lines.Text())
		}
		_ = p.cmd.Wait() // it was told to end, or has said why it did
	}()
	select {
	case p.Addr = <-listening:
		return nil
	case <-p.done:
		err = fmt.Errorf("%s ended before it listened", p.Name)
	case <-time.After(startLimit):
		err = fmt.Errorf("%s does not listen after %v", p.Name, startLimit)
	}
	p.Stop()
	return err
}

// startAt starts a process that listens at a given address, with its directory as the working
// directory and for its log.
func (p *Process) startAt(ctx context.Context, dir string) error {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // its log says why
	}()
	if err := p.accepts(ctx); err != nil {
		p.Stop()
		return errors.Join(err, errors.New(lastWords(log.Name())))
	}
	return nil
}

// accepts waits until the process accepts connections.
func (p *Process) accepts(ctx context.Context) error {
	limit := time.After(acceptLimit)
	for {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", p.Addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-p.done:
			return errors.New("it ended before it listened")
		case <-limit:
			return fmt.Errorf("it does not listen after %v", acceptLimit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// FreeAddress is an unused address on loopback, for programs that cannot choose one themselves.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Addr().(*net.TCPAddr).Port)), nil
}

// lastWords is the last line of a log, which most often says why a program has ended.
func lastWords(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.Seek(max(0, size-4096), io.SeekStart) // the end is enough
	}
	text, _ := io.ReadAll(file)
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.TrimSpace(lines[len(lines)-1]))
}

// ChildEnv is a small environment of our own, so that no setting of the user's (GOGC, GOMAXPROCS,
// proxies, PERIGEE_*) counts for one process and not for another.
func ChildEnv(home string) []string {
	return []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + os.Getenv("PATH")}
}

// Stop ends the process and waits until it has.
func (p *Process) Stop() {
	p.cancel()
	<-p.done
}

// CPU is the processor time that the process has used so far, in user and kernel mode. The
// scheduler counts it in nanoseconds for each thread; /proc/PID/stat would round to 10 ms.
func (p *Process) CPU() (time.Duration, error) {
	threads, err := filepath.Glob(p.proc("task/*/schedstat"))
	if err != nil {
		return 0, err
	}
	var total int64
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // this thread has just ended
		}
		if err != nil {
			return 0, err
		}
		running, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(running, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", path, err)
		}
		total += ns
	}
	if total == 0 {
		return 0, fmt.Errorf("%s: the kernel does not say what it used (no schedstat)", p.Name)
	}
	return time.Duration(total), nil
}

// Memory reads a size, VmRSS (resident now) or VmHWM (at most so far), in bytes.
func (p *Process) Memory(field string) (int64, error) {
	text, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return 0, err
	}
	return sizeField(string(text), field)
}

// Files counts the file descriptors that the process has open.
func (p *Process) Files() (int, error) {
	entries, err := os.ReadDir(p.proc("fd"))
	return len(entries), err
}

func (p *Process) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", p.pid, file)
}

// sizeField finds a line such as "VmRSS:     10240 kB".
func sizeField(text, field string) (int64, error) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		if name != field {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		return kb << 10, err
	}
	return 0, fmt.Errorf("no %s", field)
}
