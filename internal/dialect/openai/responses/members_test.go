package responses

import (
	"fmt"
	"strings"
	"testing"
)

func TestMembersAreFoundWhereTheyStand(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{`{}`, ``},
		{` [ {"a":1} ] `, ``},
		{`"a"`, ``},
		{`{"a":1}`, `a=1`},
		{"\n{ \"a\" :\t1 ,\r\n\"b\":{\"c\":[{}]} , \"\" : \":,\" } \n", `a=1|b={"c":[{}]}|=":,"`},
		{`{"a":"}","b":{"a":{}},"c":[[],{"d":"\\\""}],"e":null}`, `a="}"|b={"a":{}}|c=[[],{"d":"\\\""}]|e=null`},
		{`{"m\u006fdel":"\u0061","\\":-1.5e3}`, `model="\u0061"|\=-1.5e3`},
	} {
		for _, body := range [][]byte{[]byte(test.body), append(make([]byte, 0, 1000), test.body...)} {
			list, _, err := membersOf(body)
			if err != nil {
				t.Errorf("%s: %v", test.body, err)
			}
			var got []string
			for _, m := range list {
				got = append(got, fmt.Sprintf("%s=%s", m.name, m.value))
				_ = append(m.value, "xxxx"...) // must not reach into the body
			}
			if strings.Join(got, "|") != test.want || string(body) != test.body {
				t.Errorf("%s:\ngot  %s\nwant %s", test.body, strings.Join(got, "|"), test.want)
			}
		}
	}
	if _, _, err := membersOf([]byte(`{"a":1,"a":2}`)); err == nil {
		t.Error("a member may be there twice")
	}
}
