package ask

import (
	"strings"
	"sync"

	"perigee/internal/lib/lru"
)

// maxOwned is how many conversations are kept with their keys.
const maxOwned = 1 << 14

// owners are the keys that conversations with agents were begun with. An agent has the
// conversations of all keys, and those of the person at the IDE; a key may continue, read and
// decide only in its own. Conversations with models are kept for their key.
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

// allow reports whether a client may continue a conversation. One without a key is the owner of the
// gateway, or it has no keys.
func (o *owners) allow(conversation, key string) bool {
	if key == "" || strings.HasPrefix(conversation, ModelConversation) {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	owner, ok := o.keys.Get(conversation)
	return ok && owner == key
}
