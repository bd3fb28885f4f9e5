package standin

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// glog writes lines in the format of the glog package: I0216 09:30:00.123456 4711 file.go:12]
// message.
type glog struct {
	mu  sync.Mutex
	out io.Writer
}

func (g *glog) info(format string, args ...any)  { g.line('I', format, args...) }
func (g *glog) warn(format string, args ...any)  { g.line('W', format, args...) }
func (g *glog) error(format string, args ...any) { g.line('E', format, args...) }

func (g *glog) line(severity byte, format string, args ...any) {
	_, file, number, _ := runtime.Caller(2)
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	g.raw(fmt.Sprintf("%c%s %7d %s:%d] %s\n", severity, time.Now().Format("0102 15:04:05.000000"), os.Getpid(), filepath.Base(file), number, text))
}

func (g *glog) raw(text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	io.WriteString(g.out, text)
}

// Write makes lines of package log, which net/http writes, lines of this log.
func (g *glog) Write(line []byte) (int, error) {
	g.error("%s", strings.TrimSpace(string(line)))
	return len(line), nil
}
