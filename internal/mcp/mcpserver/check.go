package mcpserver

import (
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"perigee/internal/lib/rawjson"
)

// maxBatch is the maximum number of messages in a batch. Each takes many times its size when it is
// decoded.
const maxBatch = 100

// checkMessage returns the error for a message that must not be decoded: one that is not JSON or
// too deep, that is cut into more values than its size allows, or a batch of too many messages. It
// allocates no memory. A message for which it returns nil may still be invalid.
func checkMessage(data []byte) *jsonrpc.Error {
	count, err := rawjson.CheckCount(data)
	if err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the message is not JSON: " + err.Error()}
	}
	if err := count.Err(len(data)); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error() + "; send less in one message"}
	}
	c := rawjson.NewCursor(data)
	if c.Kind() != rawjson.Array {
		return nil
	}
	for i := range c.Array() {
		if i == maxBatch {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the batch has more than %d messages; send them one by one", maxBatch)}
		}
	}
	return nil
}
