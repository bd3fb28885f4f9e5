package extserver

import (
	"os"
	"strings"
	"testing"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

// What a command has written before its end arrives although the receiver was slower than the
// deadline, and although a process that outlives the shell keeps the pipe open.
func TestOutputInThePipeIsNotLost(t *testing.T) {
	output, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = output.Close(), input.Close() })
	if err := output.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Skip("pipes have no deadlines here")
	}
	written := strings.Repeat("0123456789abcdef", 1<<10)
	if n, err := input.WriteString(written); n != len(written) || err != nil {
		t.Fatal(n, err)
	}
	var got strings.Builder
	await.Return(t, func() {
		if err := copyOutput(output, func(data []byte) error { got.Write(data); return nil }); err != nil {
			t.Error(err)
		}
	}, "the output")
	if got.String() != written {
		t.Errorf("got %d of %d bytes", got.Len(), len(written))
	}
}
