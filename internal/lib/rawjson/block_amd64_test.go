package rawjson

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// Strings of many blocks, with characters cut by their borders and mistakes everywhere, are judged
// alike whether the blocks are passed by the loop in assembly or looked at one by one.
func TestPassingBlocksChangesNoVerdict(t *testing.T) {
	if !hasAVX2 {
		t.Skip("this processor has no AVX2, and no block is passed")
	}
	defer func() { hasAVX2 = true }()
	pieces := []string{
		"plain ASCII text, ", "ä", "größer ", "中文字符", "✓", "🙂", "\U0010FFFF", "\u0080", "\u07FF", "\u0800", "\uD7FF", "\uE000", `\n`, `\\`, `\"`, `\u00e4`, `\ud83d\ude42`,
	}
	mistakes := []string{
		"\x80", "\xbf\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf0\x9f\x99",
		"\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\x1f", "\x00", `\x`, `\ud83d`, `\ä`, `"`,
	}
	compare := func(text []byte) (wrong bool) {
		t.Helper()
		var verdicts [2]string
		for i := range verdicts {
			hasAVX2 = i == 0
			if err := Check(text); err != nil {
				verdicts[i] = err.Error()
			}
		}
		if verdicts[0] != verdicts[1] {
			t.Fatalf("Check(%q)\npassing blocks: %q\none by one:     %q", text, verdicts[0], verdicts[1])
		}
		return verdicts[0] != ""
	}
	for _, mistake := range mistakes { // at each place of a block, and between plain ones
		for at := range 130 {
			text := `"` + strings.Repeat(" ", at) + mistake + strings.Repeat(" ", 300) + `"`
			if !compare([]byte(text)) {
				t.Fatalf("Check(%q) found nothing wrong", text)
			}
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	wrong := 0
	for range 30_000 {
		text := []byte{'"'}
		for size := random.IntN(400); len(text) < size; {
			text = append(text, pieces[random.IntN(len(pieces))]...)
			if random.IntN(3) == 0 {
				text = append(text, "            "[:random.IntN(12)]...)
			}
			if random.IntN(60) == 0 {
				text = append(text, mistakes[random.IntN(len(mistakes))]...)
			}
		}
		if compare(append(text, '"')) {
			wrong++
		}
	}
	if wrong < 5_000 || wrong > 25_000 {
		t.Errorf("%d of 30,000 texts were wrong: this test looks at one side only", wrong)
	}
}
