package doctor

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"perigee/internal/lib/terminal"
	"perigee/internal/store/datadir"
)

// The differences that a clock may have.
const (
	warnSkew = time.Minute
	failSkew = 5 * time.Minute // access tokens count as expired, or as not valid yet
)

// A Clock is a reference for the clock of this machine.
type Clock struct {
	DataDir string       // files there must not be from the future
	URL     string       // of an upstream, which dates its answers; empty if none is called
	Client  *http.Client // for URL
	Now     func() time.Time
}

// Check compares the clock with the files of perigee and with the date in an answer of an upstream
// to a request without credentials.
func (c Clock) Check(ctx context.Context) Result {
	if name, ahead := c.newest(c.Now()); ahead > warnSkew {
		return warn(NameClock, setClock(), "%s was changed %s from now: the clock is behind, or has been ahead", name, terminal.Span(ahead))
	}
	if c.URL == "" {
		return ok(NameClock, "%s; compared with files only", c.Now().UTC().Format(time.RFC3339))
	}
	date, at, err := c.date(ctx)
	if err != nil || date.IsZero() {
		return ok(NameClock, "%s; %s did not tell its time", c.Now().UTC().Format(time.RFC3339), c.URL)
	}
	skew := at.Sub(date)
	way := "ahead of"
	if skew < 0 {
		skew, way = -skew, "behind"
	}
	switch {
	case skew > failSkew:
		return fail(NameClock, setClock(), "the clock is %s %s that of %s; sign-in and access tokens fail", terminal.Span(skew), way, c.URL)
	case skew > warnSkew:
		return warn(NameClock, setClock(), "the clock is %s %s that of %s", terminal.Span(skew), way, c.URL)
	}
	return ok(NameClock, "%s, as at %s", at.UTC().Format(time.RFC3339), c.URL)
}

// newest returns the file of perigee that was changed last, and how far that is in the future.
func (c Clock) newest(now time.Time) (name string, ahead time.Duration) {
	for _, file := range []string{datadir.StoreName, datadir.StoreName + "-wal", "perigee.lock", "admin.token"} {
		path := filepath.Join(c.DataDir, file)
		if info, err := os.Stat(path); err == nil && info.ModTime().Sub(now) > ahead {
			name, ahead = path, info.ModTime().Sub(now)
		}
	}
	return name, ahead
}

// date returns the date of an answer, and the time in the middle between request and answer.
func (c Clock) date(ctx context.Context) (date, at time.Time, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, c.URL, nil)
	if err != nil {
		return date, at, err
	}
	began := c.Now()
	resp, err := c.Client.Do(req)
	if err != nil {
		return date, at, err
	}
	_ = resp.Body.Close()
	at = began.Add(c.Now().Sub(began) / 2)
	date, err = http.ParseTime(resp.Header.Get("Date"))
	return date, at, err
}

// setClock returns the command that synchronizes the clock of the system.
func setClock() string {
	switch runtime.GOOS {
	case "darwin":
		return "sudo sntp -sS time.apple.com"
	case "windows":
		return "w32tm /resync"
	}
	return "sudo timedatectl set-ntp true"
}
