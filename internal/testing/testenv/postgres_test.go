package testenv

import "testing"

func TestNewestPostgresIsChosen(t *testing.T) {
	if a, b := postgresMajor("/usr/lib/postgresql/9/bin/initdb"), postgresMajor("/usr/lib/postgresql/15/bin/initdb"); a != 9 || b != 15 {
		t.Errorf("got %d and %d", a, b)
	}
}
