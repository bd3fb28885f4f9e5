package extserver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	pb "perigee/gen/exa/extension_server_pb"
	uss "perigee/gen/exa/unified_state_sync_pb"
)

// maxName bounds the names of topics.
const maxName = 1 << 10

// SubscribeToUnifiedStateSyncTopic sends the rows of a topic, and then each change of them. An
// update with an empty key keeps the connection alive. A reader that falls behind loses the stream,
// and gets all rows when it subscribes again.
func (s *service) SubscribeToUnifiedStateSyncTopic(ctx context.Context, req *connect.Request[pb.SubscribeToUnifiedStateSyncTopicRequest],
	stream *connect.ServerStream[pb.UnifiedStateSyncUpdate]) error {
	rows, updates := s.topics.Subscribe(req.Msg.GetTopic(), func() { endSoon(ctx) })
	defer updates.Close()
	sent, err := s.snapshots.begin(rows)
	if err != nil {
		return err
	}
	err = stream.Send(initialState(rows))
	sent()
	if err != nil {
		return err
	}
	alive := time.NewTicker(s.opts.KeepAlive)
	defer alive.Stop()
	for {
		u, ok, err := updates.Next()
		switch {
		case errors.Is(err, ErrSlow):
			return connect.NewError(connect.CodeUnavailable, err)
		case err != nil:
			return nil // the server is closed
		case ok:
			if err := stream.Send(appliedUpdate(u)); err != nil {
				return err
			}
			alive.Reset(s.opts.KeepAlive)
			continue
		}
		select {
		case <-updates.Ready():
		case <-alive.C:
			if err := stream.Send(appliedUpdate(Update{})); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// snapshot is the unary form of a subscription: the rows of the topic.
func (s *service) snapshot(ctx context.Context, req *pb.SubscribeToUnifiedStateSyncTopicRequest) (*pb.UnifiedStateSyncUpdate, error) {
	rows := s.topics.Rows(req.GetTopic())
	sent, err := s.snapshots.begin(rows)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, sent)
	return initialState(rows), nil
}

// Limits of the snapshots that are being sent. Each is a copy of its rows, which a slow reader
// keeps in memory.
const (
	smallSnapshot = 1 << 20 // is always sent
	maxSnapshots  = 128 << 20
)

// snapshots counts the bytes of large snapshots that are being sent.
type snapshots struct{ bytes atomic.Int64 }

// begin counts a snapshot until sent is called.
func (s *snapshots) begin(rows map[string]Row) (sent func(), err error) {
	size := int64(0)
	for key, row := range rows {
		size += int64(len(key) + len(row.Value))
	}
	if size <= smallSnapshot {
		return func() {}, nil
	}
	if s.bytes.Add(size) > maxSnapshots {
		s.bytes.Add(-size)
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("too many large snapshots are being sent: subscribe again later"))
	}
	return func() { s.bytes.Add(-size) }, nil
}

// summaries is the topic with a row for each conversation, which the language server writes. It
// does not delete them.
const summaries = "trajectorySummaries"

// Forget removes the summary of a conversation that was deleted.
func (s *Server) Forget(cascade string) { s.topics.Delete(summaries, cascade) }

// PushUnifiedStateSyncUpdate changes a row for the language server, in the current or in the older
// form. It does not change rows of the server itself, which are the access token and the settings.
func (s *service) PushUnifiedStateSyncUpdate(_ context.Context, req *pb.PushUnifiedStateSyncUpdateRequest) (*pb.PushUnifiedStateSyncUpdateResponse, error) {
	update := req.GetUpdate()
	key, row, deleted := update.GetKey(), update.GetRow(), false
	if applied := update.GetAppliedUpdate(); applied != nil {
		key, row, deleted = applied.GetKey(), applied.GetNewRow(), applied.GetDeleted()
	}
	topic := update.GetTopicName()
	switch {
	case topic == "" || len(topic) > maxName:
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the update needs a topic_name of at most 1024 bytes"))
	case key == "" || row == nil && !deleted:
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the update needs applied_update, or key and row"))
	case s.owned[rowName{topic, key}], topic == summaries && !deleted && s.opts.Transient(key):
	case deleted:
		s.topics.Delete(topic, key)
	default:
		if err := s.topics.Push(topic, key, row.GetValue()); errors.Is(err, errTopicsFull) {
			return nil, connect.NewError(connect.CodeResourceExhausted, err)
		} else if err != nil {
			return nil, connect.NewError(connect.CodeUnavailable, err)
		}
	}
	return &pb.PushUnifiedStateSyncUpdateResponse{}, nil
}

func initialState(rows map[string]Row) *pb.UnifiedStateSyncUpdate {
	data := make(map[string]*uss.Row, len(rows))
	for key, row := range rows {
		data[key] = encodeRow(row)
	}
	return &pb.UnifiedStateSyncUpdate{UpdateType: &pb.UnifiedStateSyncUpdate_InitialState{InitialState: &uss.Topic{Data: data}}}
}

func appliedUpdate(u Update) *pb.UnifiedStateSyncUpdate {
	applied := &uss.AppliedUpdate{Key: u.Key, Deleted: u.Deleted}
	if u.Key != "" && !u.Deleted {
		applied.NewRow = encodeRow(u.Row)
	}
	return &pb.UnifiedStateSyncUpdate{UpdateType: &pb.UnifiedStateSyncUpdate_AppliedUpdate{AppliedUpdate: applied}}
}

func encodeRow(row Row) *uss.Row { return &uss.Row{Value: row.Value, ETag: row.ETag} }
