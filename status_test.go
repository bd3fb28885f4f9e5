package perigee_test

import (
	"net/http"
	"testing"

	"perigee"
	"perigee/internal/membudget"
)

// A refusal for want of memory is 503 in every dialect, and traces say so; a provider out of capacity is 529 for Anthropic
// clients.
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
