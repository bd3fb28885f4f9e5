// Command mutate changes one operator of a package at a time, runs the tests of the package, and
// lists the changes that no test noticed. It is run by "make mutate PACKAGES=./internal/lib/sse".
//
//	mutate [-at FILE:LINE] [-most N] [-seed S] [-timeout D] [-long] PACKAGE...
//
// The files themselves are not touched: the go command reads each changed file from an overlay. A
// survivor is a place to look at, not always a fault: some changes make no difference that a caller
// can see.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		stop()
		os.Exit(1)
	}
}

type options struct {
	at      string        // only changes of this line, as FILE:LINE with the end of a path
	most    int           // how many changes of a package are tried; 0 means all
	seed    uint64        // of the choice of those
	timeout time.Duration // for one run of the tests; a change that makes them hang is noticed
	long    bool          // without -short
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.StringVar(&o.at, "at", "", "try only the changes of this `FILE:LINE`")
	flags.IntVar(&o.most, "most", 0, "try at most this many changes of each package, drawn at random; 0 tries all")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of that choice")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "limit of one run of the tests; reaching it counts as a failure")
	flags.BoolVar(&o.long, "long", false, "run the slow tests too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("name the packages, for example ./internal/lib/sse")
	}
	packages, err := list(ctx, flags.Args())
	if err != nil {
		return err
	}
	for _, p := range packages {
		if err := o.mutate(ctx, p, out); err != nil {
			return fmt.Errorf("%s: %w", p.ImportPath, err)
		}
	}
	return nil
}

// A pkg is a package as go list describes it.
type pkg struct {
	Dir, ImportPath           string
	GoFiles                   []string
	TestGoFiles, XTestGoFiles []string
}

func list(ctx context.Context, patterns []string) ([]pkg, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles"}, patterns...)...)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []pkg
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p pkg
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// mutate tries the changes of one package and writes the survivors and the counts.
func (o options) mutate(ctx context.Context, p pkg, out io.Writer) error {
	if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
		fmt.Fprintf(out, "%s has no tests\n", p.ImportPath)
		return nil
	}
	mutants, err := o.choose(p)
	if err != nil || len(mutants) == 0 {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := trial{options: o, pkg: p, dir: dir}
	if verdict, output := t.test(ctx, ""); verdict != survived {
		return fmt.Errorf("the tests fail without a change:\n%s", output)
	}
	fmt.Fprintf(os.Stderr, "%s: %d changes to try\n", p.ImportPath, len(mutants))
	counts := make(map[verdict]int)
	for _, m := range mutants {
		verdict, err := t.try(ctx, m)
		if err != nil {
			return err
		}
		counts[verdict]++
		if verdict == survived {
			fmt.Fprintf(out, "%s: %s survives as %s\n", m.position(), m.from, m.to)
		}
	}
	fmt.Fprintf(out, "%s: %d changes: %d noticed, %d survived, %d not compiled\n",
		p.ImportPath, len(mutants), counts[killed], counts[survived], counts[invalid])
	return nil
}

// choose returns the changes of a package that are to be tried.
func (o options) choose(p pkg) ([]mutant, error) {
	var mutants []mutant
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found, err := mutantsOf(path, source)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			if o.at == "" || strings.HasSuffix(filepath.ToSlash(fmt.Sprintf("%s:%d", path, m.line)), "/"+strings.TrimPrefix(o.at, "/")) {
				mutants = append(mutants, m)
			}
		}
	}
	if o.most > 0 && len(mutants) > o.most {
		random := rand.New(rand.NewPCG(o.seed, 0))
		random.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
		mutants = mutants[:o.most]
	}
	return mutants, nil
}

type verdict int

const (
	survived verdict = iota // the tests pass
	killed                  // a test fails, panics or does not end
	invalid                 // the change does not compile
)

// A trial runs the tests of a package with one changed file after the other.
type trial struct {
	options
	pkg pkg
	dir string // for the changed file and the overlay
}

func (t trial) try(ctx context.Context, m mutant) (verdict, error) {
	source, err := os.ReadFile(m.path)
	if err != nil {
		return 0, err
	}
	changed := filepath.Join(t.dir, "changed.go")
	if err := os.WriteFile(changed, m.apply(source), 0o600); err != nil {
		return 0, err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {m.path: changed}})
	if err != nil {
		return 0, err
	}
	path := filepath.Join(t.dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return 0, err
	}
	verdict, _ := t.test(ctx, path)
	return verdict, ctx.Err()
}

func (t trial) test(ctx context.Context, overlay string) (verdict, string) {
	args := []string{"test", "-count=1", "-vet=off", "-failfast", "-timeout", t.timeout.String()}
	if !t.long {
		args = append(args, "-short")
	}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	output, err := exec.CommandContext(ctx, "go", append(args, t.pkg.ImportPath)...).CombinedOutput()
	switch {
	case err == nil:
		return survived, ""
	case bytes.Contains(output, []byte("[build failed]")):
		return invalid, string(output)
	}
	return killed, string(output)
}
