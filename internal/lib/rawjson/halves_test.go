package rawjson

import "testing"

func TestReplaceHalves(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`"a\n\u00e4\ud83d\ude00\\ud83d"`, ``},
		{`"\`, ``},
		{`"\ud8`, ``},
		{`"\ud83d"`, `"\ufffd"`},
		{`"\uDE00x"`, `"\ufffdx"`},
		{`"\ud83d\ud83d\ude00\ud83dx\\\ude00"`, `"\ufffd\ud83d\ude00\ufffdx\\\ufffd"`},
	} {
		text := []byte(c.text)
		if got := ReplaceHalves(text); string(got) != c.want || string(text) != c.text {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
		if c.want != "" && Check(ReplaceHalves(text)) != nil {
			t.Errorf("%s: %v", c.text, Check(ReplaceHalves(text)))
		}
	}
}
