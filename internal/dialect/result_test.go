package dialect

import (
	"testing"

	"perigee"
)

func TestResultText(t *testing.T) {
	for _, c := range []struct{ object, want string }{
		{`{"output":"a\nb"}`, `"a\nb"`}, {`{"result":"x"}`, `"x"`}, {`{"output":"a","more":1}`, `"{\"output\":\"a\",\"more\":1}"`},
		{`{"output":{"a":1}}`, `"{\"output\":{\"a\":1}}"`}, {`{"error":"no"}`, `"{\"error\":\"no\"}"`}, {`{}`, `"{}"`},
	} {
		if got := string(ResultText(&perigee.FunctionResponse{Response: []byte(c.object)})); got != c.want {
			t.Errorf("%s: %s, want %s", c.object, got, c.want)
		}
	}
}
