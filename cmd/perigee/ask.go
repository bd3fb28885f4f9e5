package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// An input is what there is to read on stdin.
type input int

const (
	noInput       input = iota // nothing: it is closed, or /dev/null
	pipedInput                 // what another program or a file says, in place of a person
	terminalInput              // what a person types
)

func (e *environment) input() input {
	file, ok := e.stdin.(*os.File)
	if !ok {
		if e.stdin == nil {
			return noInput
		}
		return pipedInput
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		return noInput
	case isTerminal(file):
		return terminalInput
	case info.Mode()&os.ModeCharDevice != 0: // /dev/null, also in place of a stdin that is closed
		return noInput
	}
	return pipedInput
}

// agree asks for an explicit yes, at the terminal or through a pipe. Where there is neither, the error says what to do instead.
func (e *environment) agree(ctx context.Context, question, instead string) error {
	nobody := usagef("%s: stdin is not a terminal; %s", e.command.name, instead)
	from := e.input()
	if from == noInput {
		return nobody
	}
	fmt.Fprintf(e.stderr, "perigee: %s type yes to go on: ", question)
	line, err := e.readLine(ctx)
	if from == pipedInput || errors.Is(err, errInterrupted) {
		fmt.Fprintln(e.stderr) // nobody has pressed Enter
	}
	switch {
	case errors.Is(err, errInterrupted):
		return fmt.Errorf("%s: %w", e.command.name, err)
	case strings.ToLower(strings.TrimSpace(line)) == "yes":
		return nil
	case err == io.EOF && line == "":
		if from == terminalInput {
			fmt.Fprintln(e.stderr)
		}
		return nobody
	}
	return fmt.Errorf("%s: nothing was done: the answer was not yes", e.command.name)
}

// errInterrupted is for who pressed Ctrl-C before anything was done.
var errInterrupted = errors.New("interrupted; nothing was changed")

// readLine waits for a line of stdin, or for somebody who interrupts it. What comes after that nobody reads.
func (e *environment) readLine(ctx context.Context) (string, error) {
	type answer struct {
		line string
		err  error
	}
	reader, read := e.lines(), make(chan answer, 1)
	go func() {
		line, err := reader.ReadString('\n')
		read <- answer{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", errInterrupted
	case a := <-read:
		return a.line, a.err
	}
}

// lines reads stdin line by line; what is read ahead is not lost between questions. Nobody has a megabyte to say: a pipe without an
// end is not read until there is no memory left.
func (e *environment) lines() *bufio.Reader {
	if e.reader == nil {
		e.reader = bufio.NewReader(io.LimitReader(e.stdin, 1<<20))
	}
	return e.reader
}
