package perigee

import (
	"context"
	"io"
)

// A RawSender is an Upstream that can send a recorded request to its provider once more, as it is but for credentials.
type RawSender interface {
	// SendRaw calls answer once with what the provider answers, also if that is an error. Its own error says that there is no
	// answer, or is that of answer.
	SendRaw(ctx context.Context, r *RawRequest, answer func(RawAnswer) error) error
}

// A RawRequest is the body of a request to a provider, as an upstream has sent it before. The upstream to send it to is in
// Replay.
type RawRequest struct {
	Origin           // its Body is that of the client
	Operation string // OperationGenerate and the like
	Model     string // as the upstream has asked for it
	Stream    bool   // the client wanted the answer piece by piece
	Sent      []byte // to the provider
}

// A RawAnswer is what a provider answers.
type RawAnswer struct {
	Status      int
	ContentType string
	Account     string    // that was used; empty: the upstream has no accounts
	Body        io.Reader // valid during the call of answer only
}
