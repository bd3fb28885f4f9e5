package perigee_test

import (
	"net/http"
	"testing"
	"time"

	"perigee"
	"perigee/internal/server/membudget"
)

// A refusal for want of memory is 503 in every dialect, and traces say so; a provider out of
// capacity is 529 for Anthropic clients.
func TestTraceOfARefusalHasItsStatus(t *testing.T) {
	t.Parallel()
	var lease membudget.Lease
	if err := lease.Open(membudget.New(1<<20, nil), false); err != nil {
		t.Fatal(err)
	}
	full := perigee.AsError(lease.Grow(1 << 30))
	status := full.HTTPStatus(perigee.DialectAnthropic)
	call := perigee.Call{Dialect: perigee.DialectAnthropic, Outcome: perigee.OutcomeFailed, Class: full.Class, Status: full.Status}
	if got := call.TraceRow().Status; got != status || got != http.StatusServiceUnavailable {
		t.Errorf("the trace has %d, the client got %d", got, status)
	}
	call.Upstream = "gravity"
	if got := call.TraceRow().Status; got != 529 {
		t.Errorf("a provider's refusal has %d", got)
	}
	call.ClientStatus = http.StatusTeapot
	if got := call.TraceRow().Status; got != http.StatusTeapot {
		t.Errorf("a stored status of %d is read as %d", call.ClientStatus, got)
	}
}

// A provider that asks for fewer requests with a 429 is obeyed in every dialect; any other overload has
// the status of the dialect.
func TestStatusOfSlowDown(t *testing.T) {
	t.Parallel()
	slow := &perigee.Fault{Code: perigee.SlowDown}
	for _, dialect := range []perigee.Dialect{perigee.DialectOpenAIResponses, perigee.DialectAnthropic, perigee.DialectGemini} {
		overloaded := (&perigee.Error{Class: perigee.ClassCapacity, Status: 429}).HTTPStatus(dialect)
		for _, test := range []struct {
			err  perigee.Error
			want int
		}{
			{perigee.Error{Class: perigee.ClassCapacity, Status: 429, Cause: slow}, 429},
			{perigee.Error{Class: perigee.ClassCapacity, Status: 503, Cause: slow}, overloaded},
		} {
			wrapped := perigee.Error{Class: test.err.Class, Status: test.err.Status, Cause: &test.err}
			if got, again := test.err.HTTPStatus(dialect), wrapped.HTTPStatus(dialect); got != test.want || again != got {
				t.Errorf("%s: %d, wrapped %d, want %d", dialect, got, again, test.want)
			}
		}
		if overloaded != 503 && overloaded != 529 {
			t.Errorf("%s: %d", dialect, overloaded)
		}
	}
}

func TestRetryHeaders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err         perigee.Error
		status      int
		after, asks string
	}{
		{perigee.Error{}, 503, "", ""},
		{perigee.Error{}, 429, "1", ""},
		{perigee.Error{Retry: time.Millisecond}, 429, "1", ""},
		{perigee.Error{Retry: 1001 * time.Millisecond}, 503, "2", ""},
		{perigee.Error{Retry: time.Minute}, 429, "60", ""},
		{perigee.Error{Retry: time.Minute + 1}, 429, "61", "false"},
		{perigee.Error{Class: perigee.ClassExhausted}, 429, "60", "false"},
		{perigee.Error{Class: perigee.ClassExhausted, Retry: time.Second}, 429, "1", "false"},
		{perigee.Error{Class: perigee.ClassExhausted}, 402, "60", "false"},
		{perigee.Error{Class: perigee.ClassExhausted, Retry: 5 * time.Second}, 400, "5", "false"},
		{perigee.Error{Retry: 1000 * 24 * time.Hour}, 429, "2592000", "false"},
	} {
		h := http.Header{}
		test.err.SetRetryHeaders(h, test.status)
		if h.Get("Retry-After") != test.after || h.Get("X-Should-Retry") != test.asks {
			t.Errorf("%d, %q, %v: %v", test.status, test.err.Class, test.err.Retry, h)
		}
	}
}
