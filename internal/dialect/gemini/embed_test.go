package gemini

import (
	"runtime"
	"strings"
	"testing"

	"perigee"
)

// A batch may have as many requests as the API takes. More are refused before anything is kept of
// them: with a name for the model in each, the body that goes on would be several times as long.
func TestBatchIsBounded(t *testing.T) {
	batch := func(request string, n int) []byte {
		return []byte(`{"requests":[` + strings.Repeat(request+",", n-1) + request + `]}`)
	}
	one := `{"model":"models/gemini-embedding-001","content":{"parts":[{"text":"a"}]}}`
	if _, err := DecodeEmbed(perigee.Origin{Body: batch(one, maxBatch)}, "gemini-embedding-001", true); err != nil {
		t.Errorf("%d requests: %v", maxBatch, err)
	}
	for _, body := range [][]byte{batch(one, maxBatch+1), batch(`{"model":""}`, 100_000), batch(`{}`, 100_000)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeEmbed(perigee.Origin{Body: body}, "gemini-embedding-001", true)
		_, rewriteErr := RewriteModel(body, "gemini-embedding-001")
		runtime.ReadMemStats(&after)
		for _, err := range []error{err, rewriteErr} {
			if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassInvalid || !strings.Contains(e.Message, "at most 100 requests") || e.Hint == "" {
				t.Errorf("%.40s: %v", body, err)
			}
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 256<<10 {
			t.Errorf("%.40s: %d bytes allocated for a body of %d", body, used, len(body))
		}
	}
}
