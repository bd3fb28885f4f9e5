package redact

import (
	"bytes"
	"testing"

	"perigee/internal/testing/perigeetest"
)

func TestStreamAllocatesNothing(t *testing.T) {
	perigeetest.Unraced(t)
	r := redactorOf(manySecrets(1000)...)
	text := sampleBody(100 << 10)
	out := make([]byte, 0, len(text))
	if n := testing.AllocsPerRun(20, func() { out = r.AppendAll(out[:0], text) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
	if !bytes.Equal(out, text) {
		t.Error("the text was changed")
	}
}
