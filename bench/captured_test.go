package main

import (
	"net/http"
	"testing"
)

// The captured requests are those of agents: large, answered in full, and taken without a note.
func TestCapturedQuestionsAreAnswered(t *testing.T) {
	house, err := newHouse()
	if err != nil {
		t.Fatal(err)
	}
	names, questions, err := capturedQuestions(".")
	if err != nil || len(questions) != len(dialects) {
		t.Fatalf("%d questions: %v", len(questions), err)
	}
	for i, q := range questions {
		if len(q.body) < 25<<10 {
			t.Errorf("%s: only %d bytes", names[i], len(q.body))
		}
		into := &answerInMemory{header: http.Header{}}
		if err := askHouse(t.Context(), house, q, into); err != nil {
			t.Errorf("%s: %v", names[i], err)
		}
	}
}

// BenchmarkCall is one call through perigee's own code, from the body to the last event, for
// generated and captured requests. Bytes per second are those of the request.
func BenchmarkCall(b *testing.B) {
	house, err := newHouse()
	if err != nil {
		b.Fatal(err)
	}
	names, questions, err := capturedQuestions(".")
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range dialects {
		names = append(names, d.name+", 100 KB")
		questions = append(questions, newQuestion(d, quickModel, 100<<10))
	}
	for i, q := range questions {
		b.Run(names[i], func(b *testing.B) {
			into := &answerInMemory{header: http.Header{}}
			b.SetBytes(int64(len(q.body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := askHouse(b.Context(), house, q, into); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
