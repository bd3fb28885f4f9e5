package anthropic

import (
	"strings"
	"testing"
	"time"
)

func TestPromptCache(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	text := func(tokens int, mark string) string {
		return `{"type":"text","text":"` + strings.Repeat("abcd", tokens) + `"` + mark + `}`
	}
	const short, long = `,"cache_control":{"type":"ephemeral"}`, `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
	ask := func(cache *Cache, at time.Duration, e Example) Charge {
		t.Helper()
		r, refusal := Check(e.Input())
		if refusal != nil {
			t.Fatal(refusal)
		}
		got := cache.Charge(r, "key", start.Add(at))
		if got.Input < 0 || got.Input+got.Read+got.Write5m+got.Write1h != r.Tokens {
			t.Errorf("%+v is not %d tokens", got, r.Tokens)
		}
		return got
	}
	system := func(mark string) string { return `"system":[` + text(1500, mark) + `]` }

	t.Run("no breakpoint, no cache", func(t *testing.T) {
		var cache Cache
		for range 2 {
			if got := ask(&cache, 0, asked(system(""), user(text(10, "")))); got != (Charge{Input: 1510}) {
				t.Errorf("%+v", got)
			}
		}
	})
	t.Run("written, read, expired", func(t *testing.T) {
		var cache Cache
		request := asked(system(short), user(text(10, "")))
		for _, step := range []struct {
			at   time.Duration
			want Charge
		}{
			{0, Charge{Input: 10, Write5m: 1500}},
			{4 * time.Minute, Charge{Input: 10, Read: 1500}},
			{8 * time.Minute, Charge{Input: 10, Read: 1500}}, // a read renews it
			{14 * time.Minute, Charge{Input: 10, Write5m: 1500}},
		} {
			if got := ask(&cache, step.at, request); got != step.want {
				t.Errorf("after %s: %+v, want %+v", step.at, got, step.want)
			}
		}
	})
	t.Run("the mark moves with the conversation", func(t *testing.T) {
		var cache Cache
		ask(&cache, 0, asked(system(long), user(text(10, short))))
		got := ask(&cache, 10*time.Second, asked(system(long), user(text(10, "")), assistant(said("abcd")), user(text(20, short))))
		if got != (Charge{Read: 1510, Write5m: 21}) {
			t.Errorf("%+v", got)
		}
		got = ask(&cache, 30*time.Minute, asked(system(long), user(text(10, short))))
		if got != (Charge{Read: 1500, Write5m: 10}) {
			t.Errorf("only the longer lifetime is left: %+v", got)
		}
	})
	t.Run("a prefix below the smallest is not stored", func(t *testing.T) {
		var cache Cache
		small := on("claude-opus-4-7", system(short), user(text(10, "")))
		if got := ask(&cache, 0, small); got != (Charge{Input: 1510}) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a change of tools or thinking", func(t *testing.T) {
		var cache Cache
		ask(&cache, 0, asked(system(short), user(text(2000, short))))
		if got := ask(&cache, 0, asked(declared+","+system(short), user(text(2000, short)))); got.Read != 0 {
			t.Errorf("other tools: %+v", got)
		}
		if got := ask(&cache, 0, asked(`"thinking":{"type":"adaptive"},`+system(short), user(text(2000, short)))); got.Read != 1500 {
			t.Errorf("other thinking: %+v", got)
		}
		if got := ask(&cache, 0, on("claude-opus-4-8", system(short), user(text(2000, short)))); got.Read != 0 {
			t.Errorf("another model: %+v", got)
		}
	})
	t.Run("it looks back 20 blocks", func(t *testing.T) {
		var cache Cache
		grown := func(blocks int, mark string) string {
			return user(text(1500, "") + strings.Repeat(","+said("abcd"), blocks) + "," + text(1, mark))
		}
		ask(&cache, 0, asked("", user(text(1500, short))))
		if got := ask(&cache, 0, asked("", grown(18, short))); got.Read != 1500 {
			t.Errorf("19 blocks later: %+v", got)
		}
		cache.Clear()
		ask(&cache, 0, asked("", user(text(1500, short))))
		if got := ask(&cache, 0, asked("", grown(19, short))); got.Read != 0 {
			t.Errorf("20 blocks later: %+v", got)
		}
	})
	t.Run("automatic", func(t *testing.T) {
		var cache Cache
		whole := `"cache_control":{"type":"ephemeral","ttl":"1h"}`
		if got := ask(&cache, 0, asked(whole, user(text(1500, "")))); got != (Charge{Write1h: 1500}) {
			t.Errorf("%+v", got)
		}
		if got := ask(&cache, 0, asked(whole, user(text(1500, "")), assistant(said("abcd")), hi)); got != (Charge{Read: 1500, Write1h: 2}) {
			t.Errorf("%+v", got)
		}
	})
}
