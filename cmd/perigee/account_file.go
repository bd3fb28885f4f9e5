package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"perigee"
	"perigee/internal/daemon"
)

// importAccounts adds the accounts of a file, and says for each what became of it.
func importAccounts(ctx context.Context, r *accountRun) error {
	path, err := filepath.Abs(r.name)
	if err != nil {
		return err
	}
	file, err := daemon.ReadAccounts(ctx, path, r.partial)
	if file != nil {
		for _, line := range file.Lines {
			r.report(line)
		}
	}
	if err != nil {
		return err
	}
	rows, err := r.control.ImportAccounts(ctx, perigee.AccountImport{Upstream: r.upstream, Document: file.Document, Partial: r.partial})
	if err != nil && !r.partial {
		err = misused(err) // the file is good, so it is about the configuration
	}
	if err != nil {
		return fmt.Errorf("import %s: %w", r.name, err)
	}
	return list(r.env, r.asJSON, rows,
		column[perigee.ImportedRow]{"ACCOUNT", func(row perigee.ImportedRow) any { return orDash(row.Email) }},
		column[perigee.ImportedRow]{"UPSTREAM", func(row perigee.ImportedRow) any { return row.Upstream }},
		column[perigee.ImportedRow]{"RESULT", func(row perigee.ImportedRow) any { return strings.TrimSuffix(row.Result+": "+row.Why, ": ") }},
	)
}

// report says what is wrong with an entry of a file, or remarkable about it.
func (r *accountRun) report(line daemon.FileLine) {
	who := line.Where
	if line.Email != "" {
		who += " (" + line.Email + ")"
	}
	switch {
	case line.Problem != "":
		r.env.say("%s cannot be used: %s", printable(who), printable(line.Problem))
	case line.Note != "":
		r.env.say("%s: %s", printable(who), printable(line.Note))
	}
}

// exportAccounts writes the accounts to a file. That goes past the daemon: no token leaves it over any wire.
func exportAccounts(ctx context.Context, r *accountRun) error {
	if r.name == "-" {
		return usagef("account export: tokens are not written to a terminal or a pipe; say a file")
	}
	r.env.say("%s will hold refresh tokens in clear: whoever has it can use these accounts until you sign them out with the provider", printable(r.name))
	if !r.yes {
		if err := r.env.agree("write it?", "--yes"); err != nil {
			return err
		}
	}
	count, skipped, err := daemon.ExportAccounts(ctx, daemonOptions(r.env, r.loaded), r.upstream, r.name)
	for _, email := range skipped {
		r.env.say("%s is left out: its token cannot be had; sign in again with perigee login", printable(email))
	}
	if err != nil {
		return err
	}
	return r.did(fmt.Sprintf("exported %d accounts", count), r.name)
}

// agree asks the person at the terminal for an explicit yes. Where nobody sits there a flag has to say it.
func (e *environment) agree(question, flagName string) error {
	nobody := usagef("%s: nobody can be asked here; %s says yes", e.command.name, flagName)
	if !e.interactive() {
		return nobody
	}
	fmt.Fprintf(e.stderr, "perigee: %s type yes to go on: ", question)
	line, err := e.lines().ReadString('\n')
	switch {
	case strings.ToLower(strings.TrimSpace(line)) == "yes":
		return nil
	case err == io.EOF && line == "":
		fmt.Fprintln(e.stderr)
		return nobody
	}
	return fmt.Errorf("%s: nothing was done, as the answer was not yes", e.command.name)
}

// lines reads stdin line by line; what is read ahead is not lost between questions.
func (e *environment) lines() *bufio.Reader {
	if e.reader == nil {
		e.reader = bufio.NewReader(e.stdin)
	}
	return e.reader
}

// interactive says whether stdin is a terminal.
func (e *environment) interactive() bool { return isTerminal(e.stdin) }

// isTerminal says whether a stream is one that a person sits at.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
