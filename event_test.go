package perigee

import "testing"

func TestFinishWord(t *testing.T) {
	words := map[FinishKind]string{FinishDone: "STOP", FinishLength: "MAX_TOKENS"}
	for _, c := range []struct {
		finish Finish
		want   string
	}{
		{Finish{Reason: "RECITATION", Dialect: DialectGemini, Kind: FinishFiltered}, "RECITATION"},
		{Finish{Reason: "STOP"}, "STOP"},
		{Finish{Reason: "tool_calls", Dialect: DialectOpenAIChat}, "STOP"},
		{Finish{Reason: "length", Dialect: DialectOpenAIChat, Kind: FinishLength}, "MAX_TOKENS"},
	} {
		if got := c.finish.Word(DialectGemini, words); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.finish, got, c.want)
		}
	}
}
