package command

import "fmt"

// An ExitStatus is the exit code of a program that a command has run, and becomes the exit code of
// the command. The program has printed the reason, so nothing is printed.
type ExitStatus struct{ Code int }

func (e *ExitStatus) Error() string {
	return fmt.Sprintf("the program ended with exit code %d", e.Code)
}
