// Command e2e drives real client programs against a real perigee: the SDKs of OpenAI, Anthropic and
// Google for JavaScript and Go, the Vercel AI SDK, LangChain, Genkit, ADK, Claude Code, Codex,
// Gemini CLI, OpenCode, GitHub Copilot CLI, Qwen Code and pi. Each asks a question, runs a tool
// loop, a parallel one, sends a picture and meets an error; streams break off and fall silent; and
// the settings that the documents print are run as they stand there.
//
// It is not part of the tests: it installs the clients, at pinned versions, into e2e/.cache (about
// 2.8 GB), and so needs a package registry once. It is called by "make e2e", and imports nothing of
// perigee: it starts the binary that was built from this tree, and looks at it from outside.
//
//	go run ./e2e [-all] [-only PATTERN] [-perigee BINARY] [-install] [-list] [-fixtures DIR]
//
// The clients run in a network namespace that has only loopback, where the system allows one,
// because several of them call home when they start.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	passed, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	}
	if err != nil || !passed {
		stop()
		os.Exit(1)
	}
}

type options struct {
	all     bool           // every scenario instead of those of everyChange
	only    *regexp.Regexp // of "client: scenario"; nil without one
	perigee string         // the binary to drive; built from this tree when empty
	install bool           // only install and build
	list    bool
	fixture string // the directory to write fixtures of older versions to, and to end
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("e2e", flag.ContinueOnError)
	flags.BoolVar(&o.all, "all", false, "run all scenarios, not only those that every change needs")
	only := flags.String("only", "", "of all scenarios, run those that match this regular expression, as in 'codex' or 'image'")
	flags.StringVar(&o.perigee, "perigee", "", "drive this binary instead of building one")
	flags.BoolVar(&o.list, "list", false, "say what would run, and end")
	flags.StringVar(&o.fixture, "fixtures", "", "have the older versions of -only upgrade write data directories to this directory, and end")
	flags.BoolVar(&o.install, "install", false, "install and build what would run, and end")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *only == "" {
		return o, nil
	}
	var err error
	o.only, err = regexp.Compile("(?i)" + *only)
	return o, err
}

// run does everything and reports whether nothing failed.
func run(ctx context.Context, args []string, out io.Writer) (passed bool, err error) {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return true, nil // the flags have been told
	case err != nil:
		return false, err
	}
	if _, err := os.Stat(filepath.Join("e2e", "npm")); err != nil {
		return false, fmt.Errorf("run this from the root of the repository: %w", err)
	}
	wanted := opts.choose(allClients())
	if len(wanted) == 0 {
		return false, fmt.Errorf("nothing matches %s; -list says what there is", opts.only)
	}
	if opts.list {
		list(out, wanted)
		return true, nil
	}

	if missing, ok := insideSandbox(); ok {
		opts.perigee = os.Getenv(perigeeVariable)
		return drive(ctx, opts.perigee, wanted, missing, out)
	}
	missing := install(ctx, wanted, out)
	if opts.perigee, err = buildPerigee(ctx, opts.perigee); err != nil || opts.install {
		return err == nil, err
	}
	if opts.fixture != "" {
		dir, err := filepath.Abs(opts.fixture)
		if err == nil {
			err = writeFixtures(ctx, opts.perigee, dir)
		}
		return err == nil, err
	}
	if ran, passed, err := enterSandbox(ctx, args, missing, opts.perigee, out); ran {
		return passed, err
	}
	return drive(ctx, opts.perigee, wanted, missing, out)
}

// drive runs the scenarios against the daemons it starts, reports, and reports whether all passed.
func drive(ctx context.Context, binary string, wanted []client, missing map[string]string, out io.Writer) (passed bool, err error) {
	report := newReport(out)
	runnable := 0
	for _, c := range wanted {
		if c.missing(missing) == "" {
			runnable++
		}
	}
	var s *stage
	if runnable > 0 {
		var err error
		if s, err = newStage(ctx, binary, wanted); err != nil {
			return false, err
		}
		defer s.close()
	}
	var together, beside sync.WaitGroup
	timed := func(c client) {
		start := time.Now()
		c.run(ctx, s, c, report)
		report.took(c, time.Since(start))
	}
	for _, c := range wanted {
		switch reason := c.missing(missing); {
		case reason != "":
			report.skip(c, reason)
		case c.beside:
			beside.Go(func() { timed(c) })
		case c.together:
			together.Go(func() { timed(c) })
		default:
			together.Wait()
			timed(c)
		}
	}
	together.Wait()
	beside.Wait()
	report.finish()
	return report.failed == 0, nil
}

func list(out io.Writer, clients []client) {
	for _, c := range clients {
		for _, scenario := range c.scenarios {
			fmt.Fprintf(out, "%s: %s\n", c.name, scenario)
		}
	}
}
