package discover

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"perigee"
	"perigee/internal/langserver/lsclient"
)

var announcementName = regexp.MustCompile(`^ls_([0-9a-f]{16})\.json$`)

// maxAnnouncement is more than such a file has.
const maxAnnouncement = 64 << 10

// announcements reads the files in which persistent language servers announce themselves: .gemini/*/daemon/ls_*.json. Files of
// other users and files that are no announcement are skipped. A file may be older than the death of its process.
func announcements(home string) []Prospect {
	paths, err := filepath.Glob(filepath.Join(escapeGlob(home), ".gemini", "*", "daemon", "ls_*.json"))
	if err != nil {
		return nil
	}
	var found []Prospect
	for _, path := range paths {
		name := announcementName.FindStringSubmatch(filepath.Base(path))
		if name == nil {
			continue
		}
		p, ok := readAnnouncement(path)
		if !ok {
			continue
		}
		p.AppDataDir = filepath.Base(filepath.Dir(filepath.Dir(path)))
		if name[1] != hashOf("") {
			p.hash = name[1]
		}
		found = append(found, p)
	}
	return found
}

// escapeGlob makes a directory stand for itself in a pattern. On Windows, a backslash separates.
func escapeGlob(dir string) string {
	if filepath.Separator == '\\' {
		return dir
	}
	return regexp.MustCompile(`[*?\[\\]`).ReplaceAllString(dir, `\$0`)
}

func readAnnouncement(path string) (Prospect, bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || !isOwn(info) {
		return Prospect{}, false
	}
	file, err := os.Open(path)
	if err != nil {
		return Prospect{}, false
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxAnnouncement))
	if err != nil {
		return Prospect{}, false
	}
	return parseAnnouncement(data)
}

func parseAnnouncement(data []byte) (Prospect, bool) {
	var a struct {
		PID       int    `json:"pid"`
		HTTPSPort int    `json:"httpsPort"`
		HTTPPort  int    `json:"httpPort"`
		LSVersion string `json:"lsVersion"`
		CSRFToken string `json:"csrfToken"`
	}
	if json.Unmarshal(data, &a) != nil || a.PID <= 0 {
		return Prospect{}, false
	}
	p := Prospect{Candidate: Candidate{PID: a.PID, Version: a.LSVersion, Endpoint: lsclient.Endpoint{CSRF: perigee.NewSecret(a.CSRFToken)}}}
	for _, port := range []int{a.HTTPPort, a.HTTPSPort} {
		if port > 0 && port < 1<<16 {
			p.ports = append(p.ports, port)
		}
	}
	return p, len(p.ports) > 0
}
