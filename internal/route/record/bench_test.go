package record

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"perigee"
)

// repeat yields a start, n texts and a finish without any work of its own.
type repeat int

func (n repeat) Stream(context.Context, *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		if !yield(start, nil) {
			return
		}
		for range int(n) {
			if !yield(text, nil) {
				return
			}
		}
		yield(finish, nil)
	}
}

type nowhere struct{}

func (nowhere) SaveCalls(context.Context, []perigee.Call) error { return nil }

// BenchmarkStream compares a stream with and without a Recorder around it.
func BenchmarkStream(b *testing.B) {
	for _, events := range []int{1, 1000} {
		recorder := New(repeat(events), Options{Store: nowhere{}})
		for name, upstream := range map[string]perigee.Upstream{"plain": repeat(events), "recorded": recorder} {
			b.Run(fmt.Sprintf("events=%d/%s", events, name), func(b *testing.B) {
				req := request("c")
				b.ReportAllocs()
				for b.Loop() {
					for range upstream.Stream(b.Context(), req) {
					}
				}
			})
		}
		mustClose(b, recorder)
	}
}
