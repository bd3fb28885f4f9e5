package thoughtsig

import (
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/lib/rawjson"
	"perigee/internal/testing/perigeetest/await"
)

// plainSum is the sum of a text without a cache.
func plainSum(text string) textSum {
	text = strings.TrimSpace(text)
	s := textSum{size: len(text)}
	if sum := sha256.Sum256([]byte(text)); text != "" {
		copy(s.digest[:], sum[:])
	}
	return s
}

// The cache may forget texts, but gives none the sum of another, from several goroutines, also after
// more texts than it holds.
func TestSumsStayTrueBeyondTheSizeOfTheCache(t *testing.T) {
	c := sumCache{seed: maphash.MakeSeed()}
	filler := strings.Repeat("x", shortText)
	texts := []string{"", " ", "short", strings.Repeat(" ", 2*shortText), "\n" + filler + " \n", filler, filler + "\u00a0", "\xff" + filler}
	for i := range sumSlots + sumSlots/2 {
		texts = append(texts, fmt.Sprint(filler, i, filler))
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			var d textDigest
			for range 2 {
				for _, text := range texts {
					if got, want := c.sum(perigee.Plain(text), &d), plainSum(text); got != want {
						t.Errorf("%.20q of %d bytes: got %+v, want %+v", text, len(text), got, want)
						return
					}
				}
			}
		})
	}
	await.Return(t, all.Wait, "the sums")
}

// A text has the same sum in both forms, also if the bytes of one form are another text in the other.
func TestSumsOfBothForms(t *testing.T) {
	c := sumCache{seed: maphash.MakeSeed()}
	escaped := strings.Repeat(`a\n`, shortText)
	for range 2 {
		var d textDigest
		if got := c.sum(perigee.Plain(escaped), &d); got != plainSum(escaped) {
			t.Errorf("plain: got %+v", got)
		}
		if got := c.sum(perigee.Escaped(escaped), &d); got != plainSum(strings.Repeat("a\n", shortText)) {
			t.Errorf("escaped: got %+v", got)
		}
	}
}

func TestRepeatedTextsAreNotDigestedAgain(t *testing.T) {
	c := sumCache{seed: maphash.MakeSeed()}
	text := strings.Repeat("what the model said ", 20)
	c.sum(perigee.Plain(text), &textDigest{})
	var unused textDigest
	if got := c.sum(perigee.Plain(text), &unused); got != plainSum(text) || unused.hash != nil {
		t.Errorf("got %+v, digested again: %t", got, unused.hash != nil)
	}
}

// Stores hold signatures under the key of a text for days, also from earlier versions.
func TestKeysOfTextsStayTheSame(t *testing.T) {
	long := strings.Repeat("what the model said ", 20)
	m := NewMemory(Options{})
	store := &shelf{rows: map[string]perigee.Signature{}}
	m.KeepIn(store)
	defer func() { _ = m.Close(t.Context()) }()
	key := fmt.Sprintf("t:gemini::%x", sha256.Sum256([]byte(strings.TrimSpace(long))))[:len("t:gemini::")+32]
	store.rows[key] = perigee.Signature{Key: key, Value: "S1", Kind: "gemini", Expires: m.opts.Now().Add(DefaultKeep)}
	for range 2 {
		if got := ask(t, m, flash, partText(long), partText(long+"!")); got != "S1 " {
			t.Errorf("got %q", got)
		}
	}
}

// A conversation has the same tag with and without the cache, in both forms of its texts, and no tag
// of another conversation, even if the bytes of its texts are the same.
func TestTagsOfConversationsAreCached(t *testing.T) {
	c := sumCache{seed: maphash.MakeSeed()}
	beginnings := [][]perigee.Text{
		{}, {perigee.Plain(`a\n`)}, {perigee.Plain("a\n")}, {perigee.Plain("a\n"), perigee.Plain("b")},
		{perigee.Plain("a\nb")}, {perigee.Plain("a"), perigee.Plain("\nb")}, {perigee.Plain(strings.Repeat("a\n", 2*sample))},
	}
	tags := map[string]bool{}
	for _, texts := range beginnings {
		escaped := make([]perigee.Text, len(texts))
		for i, text := range texts {
			plain, _ := text.Form()
			escaped[i] = perigee.Escaped(rawjson.Inside(rawjson.AppendString(nil, plain)))
		}
		want := tagOf(texts, nil)
		for range 2 {
			if got, other := tagOf(texts, &c), tagOf(escaped, &c); got != want || other != want {
				t.Errorf("%v: got %s and %s, want %s", texts, got, other, want)
			}
		}
		tags[want] = true
	}
	if len(tags) != len(beginnings) {
		t.Errorf("%d tags of %d conversations", len(tags), len(beginnings))
	}
}

func tagOf(texts []perigee.Text, sums *sumCache) string {
	question := perigee.Content{Role: perigee.RoleUser}
	for _, text := range texts {
		question.Parts = append(question.Parts, perigee.Part{Text: text})
	}
	s := newScope(perigee.Client{}, &perigee.Prompt{Contents: []perigee.Content{question}}, models.Claude.Reasoning())
	s.sums = sums
	return s.conversationTag()
}
