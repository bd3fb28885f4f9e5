package extserver_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	pb "perigee/gen/exa/extension_server_pb"
	uss "perigee/gen/exa/unified_state_sync_pb"
	"perigee/internal/langserver/extserver"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

func TestSubscriptionsLeaveNothingBehind(t *testing.T) { testCycles(t, 200) }
func TestTenThousandSubscriptionsInARow(t *testing.T)  { perigeetest.Slow(t); testCycles(t, 10_000) }

// testCycles subscribes to a topic of its own each time, and leaves after the first frame. Half of
// the callers say goodbye, the connections of the rest break.
func testCycles(t *testing.T, cycles int) {
	r := newRig(t, extserver.Options{})
	cycle := func(i int) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := r.client.SubscribeToUnifiedStateSyncTopic(ctx, connect.NewRequest(
			&pb.SubscribeToUnifiedStateSyncTopicRequest{Topic: fmt.Sprint(strings.Repeat("t", 2000), i)}))
		if err != nil {
			return err
		}
		if !stream.Receive() || stream.Msg().GetInitialState() == nil {
			return fmt.Errorf("no initial state: %w", stream.Err())
		}
		if i%2 == 0 {
			cancel()
		}
		_ = stream.Close()
		return nil
	}
	ended := func() (n int64) {
		for _, count := range r.Requests()["SubscribeToUnifiedStateSyncTopic"] {
			n += count
		}
		return n
	}
	for i := range 50 { // connections, pools and the like
		if err := cycle(-i); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "the first subscriptions end", func() bool { return ended() == 50 })
	goroutines, heap := runtime.NumGoroutine(), heapNow()

	var workers sync.WaitGroup
	next := make(chan int)
	for range 8 {
		workers.Go(func() {
			for i := range next {
				if err := cycle(i); err != nil {
					t.Errorf("cycle %d: %v", i, err)
				}
			}
		})
	}
	for i := range cycles {
		await.Send(t, next, i, "a worker")
	}
	close(next)
	await.Return(t, workers.Wait, "the workers")
	await.Until(t, "all subscriptions end", func() bool { return ended() == int64(cycles)+50 })
	await.Until(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines+4 }) // idle connections
	if grown := heapNow() - heap; grown > 4<<20 {
		t.Errorf("%d cycles left %d KiB", cycles, grown>>10)
	}
}

func heapNow() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // pools are emptied by the second
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestPushesWhileSubscribersComeAndGo has every subscriber, whenever it comes, end with the rows of
// the store.
func TestPushesWhileSubscribersComeAndGo(t *testing.T) {
	r := newRig(t, extserver.Options{})
	const keys, pushes = 5, 250 // fewer than a subscriber may leave unread
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10 {
				if err := r.followToTheEnd(pushes + 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	defer await.Return(t, all.Wait, "the subscribers")
	for i := range pushes {
		if code := r.push(&uss.UpdateRequest{TopicName: "t", Key: fmt.Sprint(i % keys), Row: &uss.Row{Value: fmt.Sprint(i/keys + 1)}}); code != 0 {
			t.Error(code)
		}
	}
	if code := r.push(&uss.UpdateRequest{TopicName: "t", Key: "end", Row: &uss.Row{Value: "1"}}); code != 0 {
		t.Error(code)
	}
}

// followToTheEnd reads a topic until its last row is there. The value of a row is its version; all
// versions add up to changes.
func (r *serverRig) followToTheEnd(changes int64) error {
	ctx, cancel := context.WithTimeout(r.Context(), await.Limit)
	defer cancel()
	stream, err := r.client.SubscribeToUnifiedStateSyncTopic(ctx, connect.NewRequest(&pb.SubscribeToUnifiedStateSyncTopicRequest{Topic: "t"}))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	rows := map[string]*uss.Row{}
	for rows["end"] == nil && stream.Receive() {
		m := stream.Msg()
		for key, row := range m.GetInitialState().GetData() {
			rows[key] = row
		}
		if applied := m.GetAppliedUpdate(); applied.GetKey() != "" {
			if before := rows[applied.GetKey()].GetETag(); applied.GetNewRow().GetETag() != before+1 {
				return fmt.Errorf("version %d follows %d", applied.GetNewRow().GetETag(), before)
			}
			rows[applied.GetKey()] = applied.GetNewRow()
		}
	}
	var versions int64
	for key, row := range rows {
		if versions += row.GetETag(); row.GetValue() != fmt.Sprint(row.GetETag()) {
			return fmt.Errorf("row %s is %v", key, row)
		}
	}
	if versions != changes || stream.Err() != nil {
		return fmt.Errorf("%d changes instead of %d, %w", versions, changes, stream.Err())
	}
	return nil
}

func TestCloseEndsStreamsWithAFrame(t *testing.T) {
	r := newRig(t, extserver.Options{})
	streams := []*connect.ServerStreamForClient[pb.UnifiedStateSyncUpdate]{r.subscribe("a"), r.subscribe("b"), r.subscribe(oauthTopic)}
	for _, stream := range streams {
		r.next(stream)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, stream := range streams {
		if stream.Receive() || stream.Err() != nil {
			t.Errorf("got %v, %v", stream.Msg(), stream.Err())
		}
	}
	if _, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port())); err == nil {
		t.Error("the server still listens")
	}
}

// TestCloseDoesNotWaitForAStalledReader has a reader that never reads on.
func TestCloseDoesNotWaitForAStalledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipeRig(t, extserver.Options{})
		r.push(&uss.UpdateRequest{TopicName: "t", Key: "k", Row: &uss.Row{Value: strings.Repeat("v", 1<<20)}})
		r.rawSubscription("t")
		begin := time.Now()
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < time.Second || took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestConnectionsAndHeadsAreBounded(t *testing.T) {
	r := newRig(t, extserver.Options{})
	large := r.dial()
	go func() {
		_, _ = fmt.Fprintf(large, "POST / HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", strings.Repeat("x", 64<<10))
	}()
	if answer, _ := io.ReadAll(large); !strings.HasPrefix(string(answer), "HTTP/1.1 431 ") {
		t.Errorf("got %.50q", answer)
	}
	for range 1280 {
		_, _ = io.WriteString(r.dial(), "POST ")
	}
	if answer, _ := io.ReadAll(r.dial()); !strings.HasPrefix(string(answer), "HTTP/1.1 503 ") {
		t.Errorf("got %.50q", answer)
	}
}
