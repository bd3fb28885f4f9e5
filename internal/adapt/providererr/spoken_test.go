package providererr

import "testing"

func TestMayRefuseFollowsARefusalWordByWord(t *testing.T) {
	refusal := "This version of Antigravity is no longer supported. Please update to receive the latest features!"
	if _, ok := ClassifyText(refusal); !ok {
		t.Fatal("not a refusal any more")
	}
	for i := range len(refusal) {
		if !MayRefuse(refusal[:i]) {
			t.Errorf("given up at %q", refusal[:i])
		}
	}
	for _, answer := range []string{"Yes.", "This version works.", "I looked: This version of Antigravity is no longer supported."} {
		if MayRefuse(answer) {
			t.Errorf("%q was held back", answer)
		}
	}
}
