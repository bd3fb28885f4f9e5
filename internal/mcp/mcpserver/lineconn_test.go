package mcpserver

import (
	"bufio"
	"bytes"
	"io"
	"testing"
)

func TestLongLinesAreSkipped(t *testing.T) {
	data := append(bytes.Repeat([]byte{'a'}, 70), '\n')
	for limit, want := range map[int]error{69: errTooLong, 70: nil, 71: nil} {
		r := bufio.NewReaderSize(bytes.NewReader(append(data, "next\n"...)), 16)
		if _, err := readLine(r, limit); err != want {
			t.Errorf("limit %d: %v, want %v", limit, err, want)
		}
		if line, err := readLine(r, limit); string(line) != "next\n" || err != nil {
			t.Errorf("limit %d: the next line is %q, %v", limit, line, err)
		}
		if _, err := readLine(r, limit); err != io.EOF {
			t.Errorf("limit %d: %v instead of the end", limit, err)
		}
	}
}
