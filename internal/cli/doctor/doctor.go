// Package doctor checks whether perigee can work on this machine: configuration, files, ports,
// sources, accounts and clients.
//
// Each check is a function of its own inputs and changes nothing. runChecks bounds the checks in
// time and keeps their order. Every result that is not OK has a fix, which is a command line.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee/internal/lib/terminal"
)

// A Status is how serious a result is.
type Status string

// The statuses.
const (
	OK   Status = "ok"
	Warn Status = "warn" // perigee works, but not as intended, or not for long
	Fail Status = "fail" // something does not work
)

// A Result is the outcome of a check.
type Result struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix"` // a command line; empty if the status is OK

	Look   bool `json:"-"` // Fix does not change anything, but shows the cause
	Blocks bool `json:"-"` // the files in the data directory cannot be checked before this is fixed
}

func ok(check, format string, args ...any) Result {
	return Result{Check: check, Status: OK, Detail: fmt.Sprintf(format, args...)}
}

func warn(check, fix, format string, args ...any) Result {
	return Result{Check: check, Status: Warn, Detail: fmt.Sprintf(format, args...), Fix: fix}
}

func fail(check, fix, format string, args ...any) Result {
	return Result{Check: check, Status: Fail, Detail: fmt.Sprintf(format, args...), Fix: fix}
}

// look marks a result with a command that shows the cause and fixes nothing.
func look(r Result) Result {
	r.Look = true
	return r
}

// blocks marks a result that has to be fixed before the data directory can be used.
func blocks(r Result) Result {
	r.Blocks = true
	return r
}

// NotChecked returns the result of a check that depends on another one that failed. It is not a
// problem of its own.
func NotChecked(check string, cause Result) Result {
	return ok(check, "not checked: fix %s first", cause.Check)
}

// The names of checks, in the order of the output. Names that end in a colon are prefixes.
const (
	NameConfig     = "config"
	NameDataDir    = "data_dir"
	NameDisk       = "disk"
	NameStore      = "store"
	NameListen     = "listen"
	NameDaemon     = "daemon"  // only with a running daemon
	NameService    = "service" // only with a unit of systemd
	NameClock      = "clock"
	NameProxy      = "proxy" // only with a proxy
	NameUpstream   = "upstream:"
	NameAccount    = "account:"
	NameLangserver = "langserver"
	NameCA         = "ca"
	NameRedirect   = "redirect"
	NameBridge     = "bridge"
	NameKey        = "key:" // only for client keys with a budget
	NameClient     = "client:"
)

// A Group is a heading of the output and the names of its checks.
type Group struct {
	Title string
	Names []string
}

// Groups are all checks in the order of the output.
var Groups = []Group{
	{"This machine", []string{NameConfig, NameDataDir, NameDisk, NameStore, NameClock}},
	{"The daemon", []string{NameListen, NameDaemon, NameService}},
	{"Sources", []string{NameProxy, NameUpstream, NameAccount}},
	{"Language server and interception", []string{NameLangserver, NameCA, NameRedirect}},
	{"Clients", []string{NameKey, NameBridge, NameClient}},
}

// Has reports whether a check belongs to the group.
func (g Group) Has(check string) bool {
	for _, name := range g.Names {
		if check == name || strings.HasSuffix(name, ":") && strings.HasPrefix(check, name) {
			return true
		}
	}
	return false
}

// Sorted returns results in the order of Groups. Results with the same place keep their order.
func Sorted(results []Result) []Result {
	sorted := []Result{}
	for _, g := range Groups {
		for _, name := range g.Names {
			only := Group{Names: []string{name}}
			for _, r := range results {
				if only.Has(r.Check) {
					sorted = append(sorted, r)
				}
			}
		}
	}
	return sorted
}

// A Check is run by runChecks. One check may have several results.
type Check struct {
	Name string // of the result, if the check does not end in time
	Run  func(ctx context.Context) []Result
}

// grace is how long a check may take to return after its context has ended.
const grace = 500 * time.Millisecond

// runChecks runs checks concurrently, each for at most limit, and returns their results in the
// order of the checks. A check that does not end in time has a result for that. waiting is called
// with the names of the checks that are still running each time that one of them ends, one call at
// a time.
func runChecks(ctx context.Context, checks []Check, limit time.Duration, waiting func(names []string)) []Result {
	results := make([][]Result, len(checks))
	var running sync.WaitGroup
	var reporting sync.Mutex
	var names []string
	for _, c := range checks {
		names = append(names, c.Name)
	}
	for i, c := range checks {
		running.Go(func() {
			results[i] = c.bounded(ctx, limit)
			reporting.Lock()
			defer reporting.Unlock()
			at := slices.Index(names, c.Name)
			names = slices.Delete(names, at, at+1)
			if len(names) > 0 {
				waiting(names)
			}
		})
	}
	running.Wait()
	list := []Result{}
	for _, some := range results {
		list = append(list, some...)
	}
	return list
}

// bounded runs a check. One that ignores the end of its context continues in the background.
func (c Check) bounded(ctx context.Context, limit time.Duration) []Result {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan []Result, 1)
	go func() { done <- c.Run(ctx) }()
	late := time.NewTimer(limit + grace)
	defer late.Stop()
	select {
	case results := <-done:
		return results
	case <-late.C:
	}
	return []Result{warn(c.Name, longer(limit), "the check did not end within %v", limit)}
}

// longer returns the fix for a check that did not end in time.
func longer(limit time.Duration) string {
	return fmt.Sprintf("perigee doctor --timeout %.0fs", max(6*limit, 30*time.Second).Seconds())
}

// Worst returns the most serious status of results.
func Worst(results []Result) Status {
	worst := OK
	for _, r := range results {
		if r.Status == Fail || worst == OK {
			worst = r.Status
		}
	}
	return worst
}

// merge makes one result of several about the same check: details one after the other, the fix of
// the first with the most serious status.
func merge(check string, results []Result) Result {
	merged := Result{Check: check, Status: Worst(results)}
	var details []string
	for _, r := range results {
		if r.Status == merged.Status || r.Status != OK {
			details = append(details, r.Detail)
		}
		if r.Status == merged.Status && merged.Fix == "" {
			merged.Fix, merged.Look = r.Fix, r.Look
		}
	}
	merged.Detail = strings.Join(details, "; ")
	return merged
}

// commandLine returns a command line with its words quoted for a shell where that is needed.
func commandLine(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = terminal.ShellWord(word)
	}
	return strings.Join(quoted, " ")
}
