package responsesapi

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/server/membudget"
	"perigee/internal/server/mount"
)

// A storeRig is an API over a store in memory.
type storeRig struct {
	API
	runs Runs
	rows map[string]*perigee.StoredResponse // by key and id
}

func newStoreRig() *storeRig {
	rig := &storeRig{rows: map[string]*perigee.StoredResponse{
		"laptop/resp_1": {ID: "resp_1", Input: json.RawMessage(`[{"id":"msg_1","type":"message"},{"id":"msg_2","type":"message"}]`),
			Output:   json.RawMessage(`[]`),
			Response: json.RawMessage(`{"id":"resp_1","object":"response","status":"completed","background":false,"output":[]}`)},
		"laptop/resp_2": {ID: "resp_2", Input: json.RawMessage(`[]`), Output: json.RawMessage(`[]`),
			Response: json.RawMessage(`{"id":"resp_2","object":"response","status":"in_progress","background":true,"output":[]}`)},
	}}
	rig.API = API{Store: rig, Runs: &rig.runs, KeepAlive: func() time.Duration { return time.Hour }}
	return rig
}

func (s *storeRig) SaveResponse(context.Context, *perigee.StoredResponse) error { return nil }

func (s *storeRig) Response(_ context.Context, key, id string) (*perigee.StoredResponse, error) {
	if r := s.rows[key+"/"+id]; r != nil {
		c := *r
		return &c, nil
	}
	return nil, perigee.Errorf(perigee.ClassNotFound, "no response %s", id)
}

func (s *storeRig) ResponseSize(ctx context.Context, key, id string) (int64, error) {
	r, err := s.Response(ctx, key, id)
	if err != nil {
		return 0, err
	}
	return int64(len(r.Response)), nil
}

func (s *storeRig) DeleteResponse(ctx context.Context, key, id string) error {
	_, err := s.Response(ctx, key, id)
	delete(s.rows, key+"/"+id)
	return err
}

// do makes a request of the key laptop.
func (s *storeRig) do(method, target string) (body string, failed error) {
	r := httptest.NewRequest(method, "/v1/responses/"+target, nil)
	call := &mount.Call{Key: "laptop", Fail: func(err error) { failed = err }, Explain: perigee.AsError}
	r = r.WithContext(mount.WithCall(r.Context(), call))
	mount.SetWildcard(r, strings.TrimPrefix(r.URL.Path, "/v1/responses/"))
	w := httptest.NewRecorder()
	s.Point().Handler.ServeHTTP(w, r)
	return w.Body.String(), failed
}

func TestPaths(t *testing.T) {
	for _, test := range []struct {
		method, target string
		has            string
		class          perigee.Class
	}{
		{"GET", "resp_1", `"status":"completed"`, ""},
		{"GET", "resp_2", `"status":"failed"`, ""}, // it was cut off: no run makes it
		{"GET", "resp_3", "", perigee.ClassNotFound},
		{"GET", "resp_1/output", "", perigee.ClassNotFound},
		{"GET", "resp_1/input_items", `"first_id":"msg_2"`, ""},
		{"GET", "resp_1/input_items?order=asc&limit=1", `"has_more":true`, ""},
		{"GET", "resp_1/input_items?order=up", "", perigee.ClassInvalid},
		{"GET", "resp_1/input_items?limit=0", "", perigee.ClassInvalid},
		{"GET", "resp_1/input_items?limit=101", "", perigee.ClassInvalid},
		{"GET", "resp_1/input_items?limit=x", "", perigee.ClassInvalid},
		{"GET", "resp_1/input_items?after=msg_9", "", perigee.ClassNotFound},
		{"GET", "resp_1?stream=true", "event: response.completed", ""},
		{"GET", "resp_1?stream=maybe", "", perigee.ClassInvalid},
		{"GET", "resp_1?stream=true&starting_after=-1", "", perigee.ClassInvalid},
		{"GET", "resp_1?starting_after=1", "", perigee.ClassInvalid},
		{"POST", "resp_1/cancel", "", perigee.ClassInvalid},
		{"POST", "resp_2/cancel", `"id":"resp_2"`, ""},
		{"POST", "resp_2", "", perigee.ClassNotFound},
		{"DELETE", "resp_1/cancel", "", perigee.ClassNotFound},
		{"DELETE", "resp_1", `"deleted":true`, ""},
		{"DELETE", "resp_3", "", perigee.ClassNotFound},
		{"PUT", "resp_1", "", perigee.ClassInvalid},
	} {
		rig := newStoreRig()
		body, err := rig.do(test.method, test.target)
		if class(err) != test.class || test.has != "" && !strings.Contains(body, test.has) || test.has == "" && body != "" {
			t.Errorf("%s %s: %v\n%s", test.method, test.target, err, body)
		}
		if err == nil && test.method == "DELETE" && len(rig.rows) != 1 {
			t.Errorf("%s %s: it is still there", test.method, test.target)
		}
	}
}

func TestWithoutAStore(t *testing.T) {
	rig := newStoreRig()
	rig.Store = nil
	for _, method := range []string{"GET", "DELETE"} {
		if _, err := rig.do(method, "resp_1"); class(err) != perigee.ClassUnimplemented {
			t.Errorf("%s: %v", method, err)
		}
	}
	if _, err := rig.do("POST", "resp_1/cancel"); class(err) != perigee.ClassUnimplemented {
		t.Errorf("cancel: %v", err)
	}
}

// Reading a response counts in the memory budget until it is answered.
func TestReadingIsCounted(t *testing.T) {
	rig := newStoreRig()
	rig.rows["laptop/large"] = &perigee.StoredResponse{ID: "large",
		Response: json.RawMessage(`{"output":"` + strings.Repeat("x", 4<<20) + `"}`)}
	peak, now := int64(0), int64(0)
	rig.Memory = membudget.New(64<<20, func(delta int64) {
		now += delta
		peak = max(peak, now)
	})
	if _, err := rig.do("GET", "large"); err != nil {
		t.Fatal(err)
	}
	if peak < 4*4<<20 || now != 0 || rig.Memory.Used() != 0 {
		t.Errorf("peak %d, then %d of %d", peak, now, rig.Memory.Used())
	}
	rig.Memory = membudget.New(1<<20, nil)
	if _, err := rig.do("GET", "large"); class(err) != perigee.ClassCapacity {
		t.Errorf("in a small budget: %v", err)
	}
	if rig.Memory.Used() != 0 {
		t.Errorf("%d stay reserved", rig.Memory.Used())
	}
}

// A response that is being made is cancelled before it is deleted.
func TestDeletingCancels(t *testing.T) {
	rig := newStoreRig()
	ctx, run, err := rig.runs.Begin(context.WithoutCancel(t.Context()), "resp_2", "laptop")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-ctx.Done()
		run.End()
	}()
	if body, err := rig.do("DELETE", "resp_2"); err != nil || !strings.Contains(body, `"deleted":true`) {
		t.Errorf("%v: %s", err, body)
	}
	if context.Cause(ctx) != ErrCancelled {
		t.Errorf("the cause is %v", context.Cause(ctx))
	}
}
