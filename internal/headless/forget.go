package headless

import (
	"os"
	"path/filepath"
	"regexp"
)

// ownDir has a file for each conversation that perigee has started in a language server and not deleted yet.
func ownDir(opts Options) string {
	if opts.DataDir == "" {
		return ""
	}
	return filepath.Join(opts.DataDir, "langserver", opts.Upstream.Name, "conversations")
}

// forget removes what is left of a conversation that the language server has deleted.
func (s *Server) forget(cascade string) {
	if s.extension != nil {
		s.extension.Forget(cascade)
	}
	s.removeFiles(cascade)
}

// named is what IDs of conversations look like that files have as their name.
var named = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{7,}$`)

// removeFiles removes the files of a conversation from the private home of the process: some versions keep artifacts and logs
// (.gemini/*/brain/ID) beside the conversation itself (.gemini/*/conversations/ID.*). The home of another user is not touched, where
// perigee has no permission.
func (s *Server) removeFiles(cascade string) {
	if !named.MatchString(cascade) {
		return
	}
	base := filepath.Join(s.home(), ".gemini", "*", "*")
	for _, pattern := range []string{cascade, cascade + ".*"} {
		found, _ := filepath.Glob(filepath.Join(base, pattern)) // only a malformed pattern is an error
		for _, path := range found {
			if err := os.RemoveAll(path); err != nil {
				s.opts.Logger.Warn("file of a conversation not removed", "upstream", s.opts.Upstream.Name, "file", path, "error", err)
			}
		}
	}
}
