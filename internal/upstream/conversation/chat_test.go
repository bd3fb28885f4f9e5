package conversation

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"perigee"
)

// The memory that a request takes as text grows with its size, whatever it consists of.
func TestChatsGrowWithTheirSize(t *testing.T) {
	text := strings.Repeat("word ", 200)
	for name, content := range map[string]func(i int) perigee.Content{
		"messages of one side": func(int) perigee.Content { return message(perigee.RoleUser, text) },
		"messages of both sides": func(i int) perigee.Content {
			return message([]string{perigee.RoleUser, perigee.RoleModel}[i%2], text)
		},
		"empty messages": func(int) perigee.Content { return message(perigee.RoleUser, " ") },
		"media types": func(i int) perigee.Content {
			return perigee.Content{Parts: []perigee.Part{{Text: perigee.Plain(text)}, {Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: fmt.Sprintf("image/x-%d", i)}}}}
		},
	} {
		used := func(n int) float64 {
			p := &perigee.Prompt{Contents: []perigee.Content{message(perigee.RoleUser, "hello")}}
			for i := range n {
				p.Contents = append(p.Contents, content(i))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c, _, err := compose(hello(true), p)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.text()) == 0 || c.history() == c.after("answer") {
				t.Error("no text")
			}
			runtime.ReadMemStats(&after)
			return float64(after.TotalAlloc - before.TotalAlloc)
		}
		const n = 500
		if growth := used(8*n) / used(n); growth > 12 {
			t.Errorf("%s: 8 times as many take %.1f times the memory", name, growth)
		}
	}
}

// Messages of one side in a row are one, however they were divided.
func TestMessagesInARow(t *testing.T) {
	p := &perigee.Prompt{Contents: []perigee.Content{
		message(perigee.RoleUser, "a"), message(perigee.RoleModel, " "), message(perigee.RoleUser, " b "), message(perigee.RoleModel, "c"),
		message(perigee.RoleModel, "d"), message(perigee.RoleUser, "e"), message(perigee.RoleUser, "f"),
	}}
	c, _, err := compose(hello(true), p)
	if err != nil {
		t.Fatal(err)
	}
	if want := []turn{{perigee.RoleUser, "a\n\nb"}, {perigee.RoleModel, "c\n\nd"}}; fmt.Sprint(c.turns) != fmt.Sprint(want) || c.last != "e\n\nf" {
		t.Errorf("got %q, %q", c.turns, c.last)
	}
}
