package perigee

import (
	"context"
	"encoding/json"
	"time"
)

// A StoredResponse is an answer that its client may come back to: to read it again, or to go on from it
// without sending the conversation anew. It is kept in the words of the Responses API.
type StoredResponse struct {
	ID      string
	Key     string // the name of the client's key; other keys cannot read the response
	Created time.Time
	Expires time.Time

	Input    json.RawMessage // an array: everything the model was given, earlier turns included
	Output   json.RawMessage // an array: what it answered, with the provider's thought signatures, for the next turn
	Response json.RawMessage // the answer as the client got it
}

// A ResponseStore keeps responses until they expire. Another key's response, an expired one and an unknown one are all
// ClassNotFound.
type ResponseStore interface {
	// SaveResponse keeps r under its ID, replacing what was kept there.
	SaveResponse(ctx context.Context, r *StoredResponse) error
	Response(ctx context.Context, key, id string) (*StoredResponse, error)
	// ResponseSize is about how many bytes Response would return, so that memory can be reserved before it is read.
	ResponseSize(ctx context.Context, key, id string) (int64, error)
	DeleteResponse(ctx context.Context, key, id string) error
}
