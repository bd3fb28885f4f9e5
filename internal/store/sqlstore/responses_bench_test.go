package sqlstore

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee"
)

// BenchmarkSaveResponse stores the answers of a conversation whose input is a number of bytes of
// source code.
func BenchmarkSaveResponse(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "perigee.db"))
			var code strings.Builder
			for i := 0; code.Len() < size; i++ {
				fmt.Fprintf(&code, `{"id":"msg_%d","type":"message","content":"func (s *Store) load%d(ctx context.Context) (*Row, error) {\n\trow := s.db.QueryRow(ctx, %d)\n"},`, i, i*7, i*i)
			}
			r := &perigee.StoredResponse{
				Created: time.Now(), Expires: time.Now().Add(time.Hour),
				Input: []byte("[" + strings.TrimSuffix(code.String(), ",") + "]"), Output: []byte(`[{"type":"message"}]`),
				Response: []byte(`{"instructions":"` + strings.Repeat("You are an agent. ", 500) + `"}`),
			}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				r.ID = fmt.Sprint("resp_", n)
				if err := s.SaveResponse(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
