package perigee_test

import (
	"strings"
	"testing"

	"perigee"
)

func TestEstimateBodyCountsMediaAsMedia(t *testing.T) {
	blob := strings.Repeat("A", 1<<20)
	for _, test := range []struct {
		body     string
		min, max int64
	}{
		{``, 0, 0},
		{`{"contents":[{"parts":[{"text":"` + strings.Repeat("word ", 8000) + `"}]}]}`, 10000, 10010},
		{`{"contents":[{"parts":[{"text":"` + strings.Repeat("日本語", 8000) + `"}]}]}`, 18000, 18010},
		{`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data": "` + blob + `"}}]}]}`, 258, 1000},
		{`{"contents":[{"parts":[{"inline_data":{"data":"` + blob + `"}},{"text":"` + strings.Repeat("word ", 800) +
			`"},{"inline_data":{"data":"` + blob + `"}}]}]}`, 1516, 2600},
	} {
		if got := perigee.EstimateBody([]byte(test.body)); got < test.min || got > test.max {
			t.Errorf("%.80s: %d, want %d to %d", test.body, got, test.min, test.max)
		}
	}
}
