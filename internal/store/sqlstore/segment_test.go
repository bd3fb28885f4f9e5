package sqlstore

import (
	"bytes"
	"strings"
	"testing"

	"perigee"
)

// FuzzResponseTree holds that whatever is cut into a tree is put together again byte for byte, and
// that a conversation which goes on shares its beginning.
func FuzzResponseTree(f *testing.F) {
	long := strings.Repeat("long ", 150)
	for _, input := range []string{
		`[]`, ``, `[{"id":"msg_a_i0","text":"` + long + `"},{"id":"msg_b_i0"}]`, `[1,{"id":"]`, "[\x00]", `[,{"id":"x_y_i3"},{"id":"` + long + `"}]`,
	} {
		f.Add([]byte(input), []byte(`[{"id":"msg_a_0"}]`), []byte(`{"id":"resp_a","tools":"`+long+`","output":[]}`))
	}
	f.Fuzz(func(t *testing.T, input, output, response []byte) {
		made := cutSegments("key", &perigee.StoredResponse{Input: input, Output: output, Response: response})
		gotInput, gotOutput, ok := joinSegments(bodies(made.items), made.plain, made.inputBytes)
		if !ok || !bytes.Equal(gotInput, input) || !bytes.Equal(gotOutput, output) {
			t.Fatalf("%q and %q came back as %q and %q", input, output, gotInput, gotOutput)
		}
		if got, err := fillMembers(made.response, bodies(made.members)); err != nil || !bytes.Equal(got, response) {
			t.Fatalf("%q came back as %q (%v)", response, got, err)
		}
		if made.inputBytes <= 0 || len(output) != 2 {
			return
		}
		more := append(bytes.Clone(input[:len(input)-1]), `,{"id":"msg_next_i0"}]`...)
		next := cutSegments("key", &perigee.StoredResponse{Input: more, Output: output, Response: response})
		for i := range made.items[:len(made.items)-1] {
			if made.items[i].id != next.items[i].id {
				t.Fatalf("segment %d of %q is another when the conversation goes on", i, input)
			}
		}
	})
}

// bodies are what is stored of segments, and the names that belong into them.
func bodies(list []segment) (all []segmentPart) {
	for i := range list {
		all = append(all, segmentPart{list[i].body(), list[i].name})
	}
	return all
}
