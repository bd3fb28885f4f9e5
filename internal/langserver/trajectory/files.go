package trajectory

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// ConversationFilesSource lists the conversations in a directory of the language server,
// ~/.gemini/NAME/conversations: by the names and times of their files, and for the most recent
// databases also by their content. Files of type .pb are encrypted.
func ConversationFilesSource(dir string) Source {
	s := &conversationFiles{dir: dir, opened: map[string]openedFile{}}
	return Source{"conversation files", s.summaries}
}

type conversationFiles struct {
	dir string

	mu     sync.Mutex
	opened map[string]openedFile // by ID
}

type openedFile struct {
	stamp stamp
	about Description
}

// maxOpened is the number of recent databases that are opened.
const maxOpened = 16

func (s *conversationFiles) summaries(ctx context.Context) (l Listing, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return Listing{}, err
	}
	stamps := map[string]stamp{}
	for _, entry := range entries {
		id, kind, ok := strings.Cut(entry.Name(), ".")
		if !ok || kind != "db" && kind != "pb" || !entry.Type().IsRegular() {
			continue
		}
		at, err := stampOf(filepath.Join(s.dir, entry.Name()))
		if err != nil {
			continue // deleted in between
		}
		if _, twice := stamps[id]; twice {
			continue // the older form, from which the database was made; names are sorted
		}
		if l.keep(Summary{ID: id, Modified: at.latest()}); kind == "db" {
			stamps[id] = at
		}
	}
	slices.SortFunc(l.Conversations, func(a, b Summary) int {
		return cmp.Or(b.Modified.Compare(a.Modified), cmp.Compare(a.ID, b.ID))
	})
	s.describe(ctx, &l, stamps)
	return l, ctx.Err()
}

// describe adds the content of the most recent databases.
func (s *conversationFiles) describe(ctx context.Context, l *Listing, stamps map[string]stamp) {
	opened := map[string]openedFile{}
	for i := range min(maxOpened, len(l.Conversations)) {
		c := &l.Conversations[i]
		at, ok := stamps[c.ID]
		if !ok || ctx.Err() != nil {
			continue
		}
		known, ok := s.opened[c.ID]
		if !ok || known.stamp != at || !at.isStable() {
			about, err := Database{Dir: s.dir}.Describe(ctx, c.ID)
			if err != nil && ctx.Err() == nil {
				l.note("a database of a conversation cannot be read")
			}
			if err != nil {
				continue
			}
			known = openedFile{at, about}
		}
		opened[c.ID] = known
		about := known.about
		c.Workspaces, c.Created, c.Steps = about.Workspaces, about.Created, about.Steps
		for _, problem := range known.about.Degraded {
			l.note(problem)
		}
	}
	s.opened = opened
}
