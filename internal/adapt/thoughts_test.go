package adapt

import (
	"testing"

	"perigee"
)

// The size of thinking does not depend on the form of its text: escapes that are resolved are no
// loss.
func TestThinkingHasOneSize(t *testing.T) {
	size := func(text perigee.Text) int {
		return thinkingIn([]perigee.Content{{Role: perigee.RoleModel, Parts: []perigee.Part{{Thought: true, Text: text}}}})
	}
	if plain, escaped := size(perigee.Plain("first\nsecond")), size(perigee.Escaped(`first\nsecond`)); plain != escaped {
		t.Errorf("%d bytes, with escapes %d", plain, escaped)
	}
}
