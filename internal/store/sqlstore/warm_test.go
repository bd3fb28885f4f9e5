package sqlstore

import (
	"fmt"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// A store reads and writes while it is warmed up, and afterwards.
func TestStoreServesWhileItWarmsUp(t *testing.T) {
	s, err := Open(t.Context(), freshSQLite(t))
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	const before, during = 3, 20
	for i := range before {
		mustKeep(t, s, keptResponse(fmt.Sprint("before-", i), "laptop"))
	}
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.WarmUp(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for i := range during {
		all.Go(func() {
			if err := s.SaveResponse(t.Context(), keptResponse(fmt.Sprint("during-", i), "laptop")); err != nil {
				t.Error(err)
			}
			if _, err := s.Calls(t.Context(), perigee.CallQuery{}); err != nil {
				t.Error(err)
			}
		})
	}
	await.Return(t, all.Wait, "the store")
	mustKeep(t, s, keptResponse("after", "laptop"))
	for _, id := range []string{"before-0", "during-0", "after"} {
		wantResponse(t, s, keptResponse(id, "laptop"))
	}
}
