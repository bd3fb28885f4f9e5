package supervisor

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"

	"perigee"
	"perigee/internal/lib/lazyregexp"
)

// lineLimit is the number of bytes of a line that are searched.
const lineLimit = 4 << 10

// listening matches the line of a server that has opened a port.
var listening = lazyregexp.New(`(?i)listening on \S+ port at (\d{1,5}) for (HTTPS?)\b`)

// crashes are parts of the line that explains why a process ends: crashes of Go programs first,
// then of the loader and of the flags.
var crashes = []string{
	"panic:", "fatal error:", "unexpected fault address", "runtime:", "running GoogleExitFunction", "panic serving",
	"GLIBC_", "flag provided but not defined",
}

// An output finds ports and crashes in the output of a process.
type output struct {
	found func(Endpoint)    // a port
	print func(line string) // called with each line; may be nil

	mu    sync.Mutex
	line  []byte // the beginning of an unfinished line
	crash string
	last  string // line that is not empty
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	var lines []string
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte{'\n'})
		o.line = append(o.line, part[:min(len(part), lineLimit-len(o.line))]...)
		if ended {
			if line := strings.TrimSpace(whole(o.line)); line != "" {
				lines = append(lines, line)
			}
			o.line = o.line[:0]
		}
		rest = after
	}
	var ports []Endpoint
	for _, line := range lines {
		o.last = line
		if e, ok := portIn(line); ok {
			ports = append(ports, e)
		}
		if o.crash == "" && slices.ContainsFunc(crashes, func(sign string) bool { return strings.Contains(line, sign) }) {
			o.crash = line
		}
	}
	o.mu.Unlock()
	for _, e := range ports {
		o.found(e)
	}
	if o.print != nil {
		for _, line := range lines {
			o.print(line)
		}
	}
	return len(p), nil
}

// whole returns a line, without the word in which the limit has cut it, because half a secret is
// not recognized.
func whole(line []byte) string {
	if len(line) < lineLimit {
		return string(line)
	}
	return string(line[:bytes.LastIndexByte(line, ' ')+1])
}

func portIn(line string) (Endpoint, bool) {
	if !strings.Contains(line, "port at ") {
		return Endpoint{}, false
	}
	found := listening().FindStringSubmatch(line)
	if found == nil {
		return Endpoint{}, false
	}
	port, err := strconv.ParseUint(found[1], 10, 16)
	if err != nil || port == 0 {
		return Endpoint{}, false
	}
	if strings.EqualFold(found[2], "HTTPS") {
		return Endpoint{HTTPS: int(port)}, true
	}
	return Endpoint{HTTP: int(port)}, true
}

// detail returns the line that explains best why the process ended: the line of a crash, or the
// last one of a process that failed. It may contain secrets.
func (o *output) detail(failed bool) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.last
	if rest := strings.TrimSpace(whole(o.line)); rest != "" {
		last = rest
	}
	switch {
	case o.crash != "":
		return o.crash
	case failed:
		return last
	}
	return ""
}

// clipped bounds the explanation of a process's end. It is called after secrets were replaced,
// because it may cut one in two.
func clipped(text string) string {
	return perigee.Clip(strings.ToValidUTF8(strings.TrimSpace(text), "?"), 300)
}
