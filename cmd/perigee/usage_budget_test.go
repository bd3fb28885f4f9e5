package main

import (
	"testing"
	"time"
)

func TestBudgetRunsOut(t *testing.T) {
	midnight := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	afternoon := midnight.Add(15 * time.Hour)
	for _, test := range []struct {
		name   string
		now    time.Time
		budget budget
		want   time.Time
	}{
		{"at the rate of the last hour", afternoon, budget{limit: 100, used: 50, lately: 30}, afternoon.Add(100 * time.Minute)},
		{"not before the day ends", afternoon, budget{limit: 100, used: 10, lately: 10}, time.Time{}},
		{"at the end of the day", afternoon, budget{limit: 100, used: 10, lately: 10.1}, afternoon.Add(8*time.Hour + 54*time.Minute + 39*time.Second)},
		{"not used lately", afternoon, budget{limit: 100, used: 99}, time.Time{}},
		{"used up", afternoon, budget{limit: 100, used: 100, lately: 50}, time.Time{}},
		{"used beyond", afternoon, budget{limit: 100, used: 120, lately: 50}, time.Time{}},
		{"in the first minutes of a day", midnight.Add(10 * time.Minute), budget{limit: 100, used: 50, lately: 50}, midnight.Add(20 * time.Minute)},
		{"at midnight", midnight, budget{limit: 100, used: 1, lately: 1}, time.Time{}},
		{"in another zone", afternoon.In(time.FixedZone("", -36000)), budget{limit: 3, used: 2, lately: 1}, afternoon.Add(time.Hour)},
	} {
		if got := test.budget.runsOut(test.now); !got.Equal(test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
