package perigee_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"perigee/internal/testing/perigeetest"
)

// madeConnections are the files that may make HTTP clients and transports. Providers and sign-in
// servers are reached through the first only, which checks connections and sends a request once
// more when its connection has died.
var madeConnections = []string{
	"internal/lib/wire/transport.go",
	"internal/daemon/remote/remote.go",          // the daemon's own socket
	"internal/server/fetch/fetch.go",            // files on the web: guarded addresses, no connection is kept
	"internal/simulator/transport.go",           // pipes in memory
	"internal/simulator/standin",                // a process of its own, with the connections of any Go program
	"internal/testing/perigeetest",              // tests
	"internal/testing/daemontest",               // tests
	"internal/intercept/mitm/transport.go",      // servers of intercepted hosts: the connections of the client, made again
	"internal/langserver/lsclient/transport.go", // this machine only, a connection for each call
	"internal/mcp/bridge/conn.go",               // this machine only, a connection for each ask
}

var (
	makesConnections = regexp.MustCompile(`http\.(Client|Transport)\{`)
	sharedTransport  = regexp.MustCompile(`http\.(DefaultTransport|DefaultClient|Get|Head|Post|PostForm)\b[^:]`)
)

// TestProvidersAreReachedThroughCheckedConnections looks for clients that are made elsewhere, and
// for those that net/http shares.
func TestProvidersAreReachedThroughCheckedConnections(t *testing.T) {
	perigeetest.Unraced(t)
	looked := 0
	for _, root := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			looked++
			path = filepath.ToSlash(path)
			may := slices.ContainsFunc(madeConnections, func(file string) bool {
				return path == file ||
					strings.HasPrefix(path, file+"/")
			})
			for i, line := range strings.Split(string(source), "\n") {
				if sharedTransport.MatchString(line) || makesConnections.MatchString(line) && !may {
					t.Errorf("%s:%d: %s: use package lib/wire", path, i+1, strings.TrimSpace(line))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if looked < 100 {
		t.Errorf("looked at %d files only", looked)
	}
}
