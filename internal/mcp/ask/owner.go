package ask

import (
	"strings"
	"sync"

	"perigee/internal/lib/lru"
)

// maxOwned is the maximum number of conversations that are kept with their keys.
const maxOwned = 1 << 14

// owners maps conversations with agents to the keys that started them. An agent has the
// conversations of all keys and of the person at the IDE; a key may continue, read and decide only
// in its own. Conversations with models are stored with their key.
type owners struct {
	mu   sync.Mutex
	keys lru.Map[string, string]
}

func (o *owners) add(conversation, key string) {
	if key == "" || conversation == "" || strings.HasPrefix(conversation, ModelConversation) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys.Put(conversation, key)
}

// allow reports whether a client may continue a conversation. A client without a key is the owner
// of the gateway, or the gateway has no keys.
func (o *owners) allow(conversation, key string) bool {
	if key == "" || strings.HasPrefix(conversation, ModelConversation) {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	owner, ok := o.keys.Get(conversation)
	return ok && owner == key
}
