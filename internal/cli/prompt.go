package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"perigee/internal/lib/terminal"
)

// An Input is the kind of Stdin.
type Input int

// The kinds of Stdin.
const (
	NoInput       Input = iota // it is closed, or /dev/null
	PipedInput                 // a program or a file
	TerminalInput              // a person
)

// Input returns the kind of Stdin.
func (e *Env) Input() Input {
	if e.Stdin == nil {
		return NoInput
	}
	file, ok := e.Stdin.(*os.File)
	if !ok {
		return PipedInput
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		return NoInput
	case terminal.Is(file):
		return TerminalInput
	case info.Mode()&os.ModeCharDevice != 0: // /dev/null, which also replaces a closed stdin
		return NoInput
	}
	return PipedInput
}

// ErrInterrupted is the error if ctx ends at a prompt.
var ErrInterrupted = errors.New("interrupted; nothing was changed")

// Confirm asks for an explicit yes, at a terminal or through a pipe. If stdin is neither, it
// returns an error with the alternative instead.
func (e *Env) Confirm(ctx context.Context, question, instead string) error {
	noAnswer := Usagef("%s: stdin is not a terminal; %s", e.Command.Name, instead)
	from := e.Input()
	if from == NoInput {
		return noAnswer
	}
	fmt.Fprintf(e.Stderr, "perigee: %s type yes to go on: ", question)
	line, err := e.readLine(ctx)
	if from == PipedInput || !strings.HasSuffix(line, "\n") {
		fmt.Fprintln(e.Stderr) // there is no line end from the Enter key
	}
	switch {
	case errors.Is(err, ErrInterrupted):
		return fmt.Errorf("%s: %w", e.Command.Name, err)
	case strings.ToLower(strings.TrimSpace(line)) == "yes":
		return nil
	case err == io.EOF && line == "":
		return noAnswer
	}
	return fmt.Errorf("%s: nothing was done: the answer was not yes", e.Command.Name)
}

// readLine waits for a line of stdin, or for ctx to end. After that stdin is not read again.
func (e *Env) readLine(ctx context.Context) (line string, err error) {
	reader, read := e.Lines(), make(chan struct{})
	var typed string
	var failed error
	go func() {
		defer close(read)
		typed, failed = reader.ReadString('\n')
	}()
	select {
	case <-ctx.Done():
		return "", ErrInterrupted
	case <-read:
		return typed, failed
	}
}

// Lines returns a reader of stdin that is shared by all questions. It ends after 1 MiB, so that an
// endless pipe does not fill the memory.
func (e *Env) Lines() *bufio.Reader {
	if e.reader == nil {
		e.reader = bufio.NewReader(io.LimitReader(e.Stdin, 1<<20))
	}
	return e.reader
}
