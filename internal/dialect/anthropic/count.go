package anthropic

import (
	"strconv"

	"perigee"
)

// EncodeTokenCount writes the answer of count_tokens.
func EncodeTokenCount(count *perigee.TokenCount) []byte {
	dst := strconv.AppendInt([]byte(`{"input_tokens":`), count.Total, 10)
	return append(dst, '}')
}
