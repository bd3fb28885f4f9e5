package headless

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"perigee/internal/lib/lazyregexp"
)

// ownDir returns the directory with a file for each conversation that perigee has started in a
// language server and not deleted yet.
func ownDir(opts Options) string {
	if opts.DataDir == "" {
		return ""
	}
	return filepath.Join(opts.DataDir, "langserver", opts.Upstream.Name, "conversations")
}

// forget removes the files of a conversation that the language server has deleted.
func (s *Server) forget(cascade string) {
	if s.extension != nil {
		s.extension.Forget(cascade)
	}
	s.removeFiles(cascade)
}

// named matches the IDs of conversations that are used as file names.
var named = lazyregexp.New(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// removeFiles removes the files of a conversation from the private home of the process: some
// versions keep artifacts and logs (.gemini/*/brain/ID) next to the conversation itself
// (.gemini/*/conversations/ID.*). No link leads out of that home. The home of another user is not
// touched: perigee may have more permissions than that user, and the files there can change at any
// moment.
func (s *Server) removeFiles(cascade string) {
	if s.user != nil || !named().MatchString(cascade) {
		return
	}
	home, err := os.OpenRoot(s.home())
	if err != nil {
		return // the directory does not exist yet
	}
	defer func() { _ = home.Close() }()
	for _, pattern := range []string{cascade, cascade + ".*"} {
		found, _ := fs.Glob(home.FS(), path.Join(".gemini", "*", "*", pattern)) // only a malformed pattern is an error
		for _, name := range found {
			if err := home.RemoveAll(name); err != nil {
				s.opts.Logger.Warn("file of a conversation not removed", "upstream", s.opts.Upstream.Name, "file", name, "error", err)
			}
		}
	}
}
