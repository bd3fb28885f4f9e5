package sqlstore

import (
	"context"
	"database/sql"
	"sync"
)

// hotStatements are prepared once for the writing connection: a stored response needs ten statements, and reading each of them
// anew takes longer than what they do. Their arguments are in order, each once.
type hotStatements struct {
	mu       sync.Mutex
	prepared map[string]*sql.Stmt
}

var hot = []string{
	saveResponse, saveItem, referItem, addTotals, selectRow, selectKnown(knownFirst), selectEnd, deleteRow, deleteItem, releaseItem, forgetTotals, selectKept,
}

// prepare makes the statements, if there are none yet. It needs the connection, so it has to come before a transaction.
func (h *hotStatements) prepare(ctx context.Context, db *sql.DB) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.prepared != nil {
		return nil
	}
	prepared := make(map[string]*sql.Stmt, len(hot))
	for _, text := range hot {
		statement, err := db.PrepareContext(ctx, placeholders.ReplaceAllString(text, "?"))
		if err != nil {
			for _, done := range prepared {
				_ = done.Close()
			}
			return err
		}
		prepared[text] = statement
	}
	h.prepared = prepared
	return nil
}

// find returns a statement that is prepared; nil: it is not.
func (h *hotStatements) find(text string) *sql.Stmt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.prepared[text]
}
