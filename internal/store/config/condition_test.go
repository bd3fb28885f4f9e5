package config

import "testing"

func TestComparison(t *testing.T) {
	for text, holds := range map[string][3]bool{ // for 9, 10 and 11
		">10": {false, false, true}, ">=10": {false, true, true}, "<10": {true, false, false}, "<= 10": {true, true, false}, "": {true, true, true},
	} {
		c, ok := parseComparison(text)
		if got := [3]bool{c.Holds(9), c.Holds(10), c.Holds(11)}; !ok || got != holds {
			t.Errorf("%q: got %v, %v; want %v", text, got, ok, holds)
		}
	}
	for _, text := range []string{"10", "=10", ">", "> ten", ">-1", ">1e5", "=>10", ">9223372036854775808"} {
		if c, ok := parseComparison(text); ok {
			t.Errorf("%q was read as %v", text, c)
		}
	}
}

func TestConditionInWords(t *testing.T) {
	all := Condition{Agent: "sub", InputTokens: Comparison{">=", 10}, Images: new(true), Tools: new(false)}
	for want, c := range map[string]Condition{
		"": {}, "agent: sub, input_tokens: >=10, images: true, tools: false": all, "tools: true": {Tools: new(true)},
	} {
		if got := c.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
