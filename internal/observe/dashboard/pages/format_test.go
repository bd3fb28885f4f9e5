package pages

import (
	"testing"

	"perigee"
)

func TestAxesOfTinyCosts(t *testing.T) {
	c := CostChart([]perigee.UsageRow{{CostUSD: perigee.USD(0.000018)}})
	if top, half := c.Axis(c.Top()), c.Axis(c.Top()/2); top != "$0.00002" || half != "$0.00001" {
		t.Errorf("got %s and %s", top, half)
	}
}

func TestCostsOfGroups(t *testing.T) {
	for want, row := range map[string]perigee.UsageRow{
		"–":      {UnpricedCalls: 2},
		"$2.05":  {CostUSD: perigee.USD(2.05)},
		"≥$2.05": {CostUSD: perigee.USD(2.05), UnpricedCalls: 1},
	} {
		if got := CostOf(row); got != want {
			t.Errorf("%+v: %s, want %s", row, got, want)
		}
	}
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 9999: "9,999", 10000: "10k", 12345: "12.3k", 999_949: "1000k", 1_000_000: "1M", 8_610_000: "8.61M",
		75_000_000: "75M", 1_234_000_000: "1.23B"} {
		if got := Count(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 12: "12", 1234: "1,234", -1234: "-1,234", -123: "-123", 1234567: "1,234,567"} {
		if got := Exact(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
