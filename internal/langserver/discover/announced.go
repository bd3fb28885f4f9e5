package discover

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"perigee"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/lib/lazyregexp"
)

var announcementName = lazyregexp.New(`^ls_([0-9a-f]{16})\.json$`)

// maxAnnouncement is larger than any announcement.
const maxAnnouncement = 64 << 10

// announcements reads the files in which persistent language servers announce themselves:
// .gemini/*/daemon/ls_*.json. It skips files of other users and files that are not announcements.
// A file may remain after its process has ended.
func announcements(home string) []Prospect {
	paths, err := filepath.Glob(filepath.Join(escapeGlob(home), ".gemini", "*", "daemon", "ls_*.json"))
	if err != nil {
		return nil
	}
	var found []Prospect
	for _, path := range paths {
		name := announcementName().FindStringSubmatch(filepath.Base(path))
		if name == nil {
			continue
		}
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || !isOwn(info) {
			continue
		}
		a, ok := readAnnouncement(path)
		if !ok {
			continue
		}
		p, ok := a.prospect()
		if !ok {
			continue
		}
		if name[1] != hashOf("") {
			p.hash = name[1]
		}
		found = append(found, p)
	}
	return found
}

// escapeGlob escapes the special characters of a directory in a pattern. On Windows, a backslash
// is a separator.
func escapeGlob(dir string) string {
	if filepath.Separator == '\\' {
		return dir
	}
	return regexp.MustCompile(`[*?\[\\]`).ReplaceAllString(dir, `\$0`)
}

// Announced returns the process and the endpoint that a language server has announced in the home
// directory of its process, by the name of its data directory and of its workspace, which is empty
// if there is none. ok is false if there is no such file.
func Announced(home, appData, workspaceID string) (pid int, e lsclient.Endpoint, ok bool) {
	name := "ls_" + hashOf(workspaceID) + ".json"
	a, ok := readAnnouncement(filepath.Join(home, ".gemini", appData, "daemon", name))
	e = lsclient.Endpoint{HTTP: a.HTTPPort, HTTPS: a.HTTPSPort, CSRF: perigee.NewSecret(a.CSRFToken)}
	return a.PID, e, ok
}

// An announcement is the content of such a file.
type announcement struct {
	PID       int    `json:"pid"`
	HTTPSPort int    `json:"httpsPort"`
	HTTPPort  int    `json:"httpPort"`
	LSVersion string `json:"lsVersion"`
	CSRFToken string `json:"csrfToken"`
}

// readAnnouncement reads a file, which may belong to another user: it does not block on a pipe or
// a device.
func readAnnouncement(path string) (a announcement, ok bool) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return a, false
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return a, false
	}
	data, err := io.ReadAll(io.LimitReader(file, maxAnnouncement))
	if err != nil {
		return a, false
	}
	return parseAnnouncement(data)
}

func parseAnnouncement(data []byte) (a announcement, ok bool) {
	err := json.Unmarshal(data, &a)
	return a, err == nil && a.PID > 0
}

// prospect returns the announced language server. It returns false if the announcement has no
// port.
func (a announcement) prospect() (Prospect, bool) {
	p := Prospect{Candidate: Candidate{PID: a.PID, Version: a.LSVersion, Endpoint: lsclient.Endpoint{CSRF: perigee.NewSecret(a.CSRFToken)}}}
	for _, port := range []int{a.HTTPPort, a.HTTPSPort} {
		if port > 0 && port < 1<<16 {
			p.ports = append(p.ports, port)
		}
	}
	return p, len(p.ports) > 0
}
