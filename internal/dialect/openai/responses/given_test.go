package responses

import (
	"encoding/json"
	"testing"

	"perigee/internal/lib/rawjson"
)

// What is stored of an item is the same whether its bytes are taken as they came or read again, but
// for spaces.
func TestItemsAreStoredAsTheyCame(t *testing.T) {
	for _, test := range []struct {
		item, want string
		asItCame   bool
	}{
		{`{"type":"message","role":"user","content":[{"type":"input_text","text":"a\"b"}]}`,
			`{"id":"msg_c_i0","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"a\"b"}]}`, true},
		{`{"id":"m1","type":"message","status":"in_progress","role":"user","content":[]}`, `{"id":"m1","type":"message","status":"in_progress","role":"user","content":[]}`, true},
		{`{"type":"function_call","call_id":"x","name":"f","arguments":"{}", "extra" : 1 }`, `{"id":"fc_c_i0","type":"function_call","call_id":"x","name":"f","arguments":"{}","extra":1}`, true},
		{`{"type":"function_call","call_id":"x","name":"f","arguments":"{}"}`, `{"id":"fc_c_i0","type":"function_call","call_id":"x","name":"f","arguments":"{}"}`, true},
		{`{"type":"function_call_output","status":"completed","call_id":"x","output":"y"}`, `{"id":"fco_c_i0","type":"function_call_output","status":"completed","call_id":"x","output":"y"}`, true},
		{`{"type":"reasoning","summary":[],"encrypted_content":null}`, `{"id":"rs_c_i0","type":"reasoning","summary":[],"encrypted_content":null}`, true},
		{`{"type":"message","role":"user","content":"plain"}`, `{"id":"msg_c_i0","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"plain"}]}`, false},
		{`{"role":"assistant","content":"plain"}`, `{"id":"msg_c_i0","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"plain"}]}`, false},
		{`{"role":"user","type":"message","content":[]}`, `{"id":"msg_c_i0","type":"message","status":"completed","role":"user","content":[]}`, false},
		{`{"type":"message","id":"m2","role":"user","content":[]}`, `{"id":"m2","type":"message","status":"completed","role":"user","content":[]}`, false},
		{`{"type":"message","id":null,"status":null,"role":"user","content":[]}`, `{"id":"msg_c_i0","type":"message","status":"completed","role":"user","content":[]}`, false},
		{`{"type":"message","id":"","role":"user","content":[]}`, `{"id":"msg_c_i0","type":"message","status":"completed","role":"user","content":[]}`, false},
		{`{"id":"a\u0062","type":"message","role":"user","content":[]}`, `{"id":"ab","type":"message","status":"completed","role":"user","content":[]}`, false},
		{`"a plain question"`, `{"id":"msg_c_i0","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"a plain question"}]}`, false},
	} {
		r, _ := decode(t, `{"model":"m","input":[`+test.item+` , {"type":"message","role":"user","content":[{"type":"input_text","text":"?"}]}]}`)
		last := `,{"id":"msg_c_i1","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"?"}]}]`
		if got := string(r.InputItems("c")); !sameJSON(got, "["+test.want+last) {
			t.Errorf("%s is stored as %s, want %s", test.item, got, test.want)
		}
		if len(r.given) != 2 {
			t.Fatalf("%s: %d items were kept", test.item, len(r.given))
		}
		if asItCame := r.given[0].write(new(rawjson.Writer).Array(), "c", 0); asItCame != test.asItCame {
			t.Errorf("%s is stored as it came: %v", test.item, asItCame)
		}
		r.given = nil
		if got := string(r.InputItems("c")); got != "["+test.want+last {
			t.Errorf("%s, read again, is stored as %s, want %s", test.item, got, test.want)
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

// What is not stored is not kept in mind either.
func TestItemsOfUnstoredInputAreNotKept(t *testing.T) {
	r, _ := decode(t, `{"model":"m","store":false,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"?"}]},"x"]}`)
	if r.given != nil {
		t.Errorf("%d items were kept", len(r.given))
	}
}
