package sqlstore

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"perigee"
)

func BenchmarkSaveCalls(b *testing.B) {
	for _, size := range []int{1, 8, 50, 1000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "perigee.db"))
			mustUpkeep(b, s, time.Time{}) // makes the indexes by names
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			batch := make([]perigee.Call, size)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				for i := range batch {
					n++
					batch[i] = fullCall(fmt.Sprintf("%08d", n))
					batch[i].Outcome = perigee.OutcomeDone
				}
				if err := s.SaveCalls(ctx, batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/call")
		})
	}
}

func BenchmarkUsage(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "perigee.db"))
	batch := make([]perigee.Call, 10_000)
	for i := range batch {
		batch[i] = fullCall(fmt.Sprint(i))
		batch[i].Model = fmt.Sprint(i % 9)
		batch[i].Time = noon.Add(time.Duration(i) * time.Minute)
	}
	mustSave(b, s, batch...)
	for _, by := range []string{perigee.ByModel, perigee.ByDay} {
		b.Run(by, func(b *testing.B) {
			for b.Loop() {
				mustUsage(b, s, perigee.UsageQuery{By: by})
			}
		})
	}
}
