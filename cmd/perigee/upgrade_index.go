package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/netguard"
	"perigee/internal/lib/wire"
)

const (
	maxIndex     = 4 << 20
	indexTime    = 30 * time.Second
	maxRedirects = 5
)

// readIndex reads an index of releases from a URL or a file.
func readIndex(ctx context.Context, where string) ([]release, error) {
	ctx, cancel := context.WithTimeout(ctx, indexTime)
	defer cancel()
	raw, err := fetchIndex(ctx, where)
	where = withoutPassword().ReplaceAllString(where, "$1") // also in an address that cannot be parsed
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("nothing more came within %v", indexTime)
	}
	if err != nil {
		return nil, fmt.Errorf("the index %s cannot be read: %w", where, err)
	}
	releases, err := decodeIndex(raw)
	if err != nil {
		return nil, fmt.Errorf("the index %s cannot be used: %w", where, err)
	}
	return releases, nil
}

var withoutPassword = lazyregexp.New(`^([a-zA-Z]+://)[^/?#]*@`)

func fetchIndex(ctx context.Context, where string) ([]byte, error) {
	path, isFile := strings.CutPrefix(where, "file://")
	if isFile || !strings.Contains(where, "://") {
		return readIndexFile(ctx, path)
	}
	client := wire.NewClient(nil)
	defer client.CloseIdleConnections()
	secure := false // an earlier address was https
	for range 1 + maxRedirects {
		u, err := url.Parse(where)
		if err != nil {
			return nil, errors.Unwrap(err)
		}
		if err := refuseAddress(u, secure); err != nil {
			return nil, err
		}
		secure = secure || u.Scheme == "https"
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, errors.Unwrap(err) // without the address, which may have a password
		}
		defer func() { _ = resp.Body.Close() }()
		if next, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
			where = next.String()
			continue
		}
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("the server answered %s", resp.Status)
		}
		return readAtMost(resp.Body)
	}
	return nil, fmt.Errorf("more than %d redirects", maxRedirects)
}

// refuseAddress returns an error unless an address is https, or http on this machine. No other
// machine redirects to a service of this one.
func refuseAddress(u *url.URL, secure bool) error {
	if u.Scheme == "https" || u.Scheme == "http" && !secure && netguard.IsLoopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%s://%s is not used; an index comes by https", u.Scheme, u.Host)
}

// readIndexFile reads a file, which may be a pipe: opening one waits for a writer, and no context ends
// that.
func readIndexFile(ctx context.Context, path string) ([]byte, error) {
	type result struct {
		raw []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		file, err := os.Open(path)
		if err != nil {
			done <- result{nil, errors.Unwrap(err)}
			return
		}
		defer func() { _ = file.Close() }()
		raw, err := readAtMost(file)
		done <- result{raw, err}
	}()
	select {
	case r := <-done:
		return r.raw, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func readAtMost(from io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(from, maxIndex+1))
	if err == nil && len(raw) > maxIndex {
		err = errors.New("it is larger than 4 MiB")
	}
	return raw, err
}

// A semver is a semantic version.
type semver struct {
	numbers [3]int
	before  []string // the parts of a pre-release
}

var semantic = lazyregexp.New(`^v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-([0-9A-Za-z.-]{1,100}))?(?:\+[0-9A-Za-z.-]{1,100})?$`)

func parseVersion(text string) (v semver, err error) {
	parts := semantic().FindStringSubmatch(text)
	if parts == nil {
		return v, fmt.Errorf("%q is not a version such as 1.2.3", text)
	}
	for i := range v.numbers {
		v.numbers[i], _ = strconv.Atoi(parts[i+1]) // at most nine digits
	}
	if parts[4] != "" {
		v.before = strings.Split(parts[4], ".")
	}
	return v, nil
}

// less orders versions as semver.org does.
func (v semver) less(w semver) bool {
	if order := slices.Compare(v.numbers[:], w.numbers[:]); order != 0 {
		return order < 0
	}
	if len(v.before) == 0 || len(w.before) == 0 {
		return len(v.before) > len(w.before) // a pre-release comes before its release
	}
	return slices.CompareFunc(v.before, w.before, func(a, b string) int {
		m, errA := strconv.Atoi(a)
		n, errB := strconv.Atoi(b)
		switch {
		case errA == nil && errB == nil:
			return cmp.Compare(m, n)
		case errA == nil:
			return -1 // numbers come before words
		case errB == nil:
			return 1
		}
		return strings.Compare(a, b)
	}) < 0
}

// An installedBy is how this program was installed, and the command that upgrades it: FILE is the
// file of that kind in the release, VERSION its version.
type installedBy struct{ manager, kind, command string }

// installation returns how this program was installed. A package manager is known by its directory,
// or is asked for the package that owns the file.
func installation(ctx context.Context) installedBy {
	byHand := installedBy{"hand", "archive", ""}
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return byHand
	}
	owns := func(command ...string) bool {
		out, err := serviceHost(nil).Run(ctx, command...)
		return err == nil && strings.Contains(out, "perigee")
	}
	_, shell := os.Stat("/bin/sh")
	info, hasInfo := debug.ReadBuildInfo()
	by, known := installedAt(path)
	switch {
	case known:
		return by
	case hasInfo && info.Main.Sum != "": // it was built from a module with a checksum, not from a checkout
		return installedBy{"go install", "", "go install " + info.Path + "@vVERSION"}
	case owns("dpkg", "-S", path):
		return installedBy{"dpkg", "deb", "sudo apt-get install ./FILE"}
	case owns("rpm", "-qf", path):
		return installedBy{"rpm", "rpm", "sudo rpm -U FILE"}
	case path == "/usr/bin/perigee" && errors.Is(shell, fs.ErrNotExist): // nothing else is in the image
		return installedBy{"a container image", "", "pull the image of version VERSION, and start it with the same /data"}
	}
	return byHand
}

// installedAt returns the package manager with a directory of its own that path is in.
func installedAt(path string) (installedBy, bool) {
	path = strings.ToLower(strings.ReplaceAll(path, `\`, "/"))
	for dir, by := range map[string]installedBy{
		"/cellar/perigee/":     {"brew", "", "brew upgrade perigee"},
		"/scoop/apps/perigee/": {"scoop", "", "scoop update perigee"},
	} {
		if strings.Contains(path, dir) {
			return by, true
		}
	}
	return installedBy{"nix", "", "nix profile upgrade perigee"}, strings.HasPrefix(path, "/nix/store/")
}
